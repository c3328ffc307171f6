"""`credo map`, end to end on a small table, and what it refuses."""

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

import credo
from credo.app.cli.map import register

RNG = np.random.default_rng(0)
LON, LAT = RNG.uniform(6, 9, 45), RNG.uniform(50, 52, 45)
PM = 20 + 3 * np.sin(2 * LON) + 2 * np.cos(3 * LAT) + 0.3 * RNG.normal(size=45)
TABLE = "\n".join(
    ["lon;lat;pm10;se;kind"] + [f"{a:.4f};{b:.4f};{c:.2f};0.1;x" for a, b, c in zip(LON, LAT, PM, strict=True)]
)
WHAT = ("--x", "lon", "--y", "lat", "--value", "pm10")


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "points.csv").write_text(TABLE + "\n7.0;51.0;;0.1;x\n")
    app = typer.Typer()
    app.callback()(lambda: None)
    register(app)
    return lambda *words: CliRunner().invoke(app, ["map", *words])


@pytest.mark.slow
@pytest.mark.usefixtures("unchecked")
def test_points_become_a_map(run, tmp_path):
    done = run("points.csv", *WHAT, "--threshold", "21", "--slope", "--cells", "12x9", "--error", "se")
    assert done.exit_code == 0, done.output
    assert "45 measurements, 12 × 9 cells" in done.stdout and "would help most at lon = " in done.stdout
    assert "1 of 46 rows were left out" in done.stderr and "taken for degrees" in done.stderr
    folder = tmp_path / "credo-map-points"
    table = np.genfromtxt(folder / "map.csv", delimiter=",", names=True)
    assert len(table) == 108 and table.dtype.names[:5] == ("lon", "lat", "mean", "sd", "exceeds")
    field = credo.load(folder / "field.credo")
    places = np.column_stack([table["lon"], table["lat"]])
    np.testing.assert_allclose(field.predict(places).mean, table["mean"], rtol=1e-6)
    np.testing.assert_allclose(field.exceeds(places, 21.0), table["exceeds"], atol=1e-6)
    report = (folder / "report.html").read_text()
    for words in ("A map of pm10", "Where to measure next", "Above 21.0", "Slope and aspect", "whole blocks"):
        assert words in report
    again = run("points.csv", *WHAT)
    assert again.exit_code == 2 and "exists already" in again.stderr


@pytest.mark.slow
@pytest.mark.usefixtures("unchecked")
def test_tables_as_they_come_become_maps(run, tmp_path):
    """Skewed values around the meridian; counts of many days at a few stations."""
    east = np.where(np.arange(45) < 20, RNG.uniform(359, 360, 45), RNG.uniform(0, 1, 45))
    rows = [f"{a:.3f},{b - 50:.3f},{np.exp(v - 20):.1f}" for a, b, v in zip(east, LAT, PM, strict=True)]
    (tmp_path / "turn.csv").write_text("\n".join(["longitude,latitude,rain", *rows]))
    done = run("turn.csv", "--x", "longitude", "--y", "latitude", "--value", "rain", "--cells", "8x6")
    assert done.exit_code == 0, done.output
    longitude = np.genfromtxt(tmp_path / "credo-map-turn" / "map.csv", delimiter=",", names=True)["longitude"]
    assert -1.2 < longitude.min() < longitude.max() < 1.2 and "whole blocks" in done.stdout
    assert "intervals reach below zero" in (tmp_path / "credo-map-turn" / "report.html").read_text()
    rows = [f"{500000 + 100 * (i % 4)},{5000000 + 90 * (i % 3)},{RNG.poisson(0.5)}" for i in range(24)]
    (tmp_path / "days.csv").write_text("\n".join(["E,N,found", *rows]))
    done = run("days.csv", "--x", "E", "--y", "N", "--value", "found", "--cells", "8x6", "--exact")
    assert "one value at a place" in done.stderr and "at [500000.0, 5000000.0]" in done.stderr
    done = run("days.csv", "--x", "E", "--y", "N", "--value", "found", "--cells", "8x6")
    assert done.exit_code == 0 and "help most at E = 500" in done.stdout and ", N = 5000" in done.stdout


REFUSED = [
    (("points.csv", "--x", "lng", "--y", "lat", "--value", "pm10"), "did you mean 'lon'"),
    (("points.csv", "--x", "lon", "--y", "lat", "--value", "kind"), "a column of numbers, found 'x' in row 1"),
    (("points.csv", "--x", "lon", "--y", "lon", "--value", "pm10"), "different columns"),
    (("points.csv", *WHAT, "--group", "pm10"), "different columns, found lon, lat, pm10, pm10"),
    (("points.csv", *WHAT, "--cells", "many"), "such as 200x150"),
    (("points.csv", *WHAT, "--trend", "cubic"), "one of constant, linear, quadratic"),
    (("points.csv", *WHAT, "--group", "kind"), "two groups or more"),
    (
        ("points.csv", "--x", "pm10", "--y", "lon", "--value", "lat", "--lonlat", "--exact", "--anisotropic"),
        "projected",
    ),
    (("none.csv", *WHAT), "no file none.csv"),
    (("few.csv", *WHAT), "three measurements or more, found 2"),
]


@pytest.mark.parametrize(("words", "said"), REFUSED, ids=[said[:14] for _, said in REFUSED])
def test_what_cannot_be_mapped_is_refused_in_a_line(run, tmp_path, words, said):
    (tmp_path / "few.csv").write_text("lon,lat,pm10\n1,2,3\n4,5,6\n")
    done = run(*words)
    assert done.exit_code == 2 and said in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr
    assert not list(tmp_path.glob("credo-map*"))
