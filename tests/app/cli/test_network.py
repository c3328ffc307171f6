"""`credo network`, and its picture."""

import pytest

import credo
from credo.app.cli.network import register
from credo.models.network import LinearGaussian

RAIN = {
    "cloudy": {"yes": 0.5, "no": 0.5},
    "rain": ("cloudy", {"yes": {"yes": 0.8, "no": 0.2}, "no": {"yes": 0.2, "no": 0.8}}),
    "warm": LinearGaussian(["rain"], [12.0, 18.0], variance=4.0),
}


@pytest.fixture
def run(command):
    return command(register, "network")


def test_a_network_is_asked(run, tmp_path):
    net = credo.Network({name: RAIN[name] for name in ("cloudy", "rain")})
    net.write(tmp_path / "rain.bif")
    done = run("rain.bif", "--given", "rain=yes", "--ask", "cloudy")
    assert done.exit_code == 0, done.output
    assert "2 variables, 1 arrows" in done.output and "probability of what was observed: 0.5" in done.output
    assert "cloudy    yes         0.8000  0.5000" in done.output and "rain " not in done.output
    assert (tmp_path / "rain.network.png").read_bytes().startswith(b"\x89PNG")
    assert "exists already" in run("rain.bif").output
    for words, message in [
        (["--given", "rain"], "--given must be NAME=STATE"),
        (["--given", "rain=perhaps"], "'rain' has the states yes, no"),
        (["--ask", "snow"], "no variable 'snow'"),
        (["--out", "rain.txt"], "a picture ends in"),
    ]:
        refused = run("rain.bif", "--force", *words)
        assert refused.exit_code == 2 and message in refused.output


def test_a_saved_network_with_numbers(run, tmp_path):
    credo.save(credo.Network(RAIN), tmp_path / "warm.credo")
    done = run("warm.credo", "--given", "warm=12.5")
    assert done.exit_code == 0, done.output
    assert "rain      yes         0.9770  0.5000" in done.output
    credo.save(credo.BetaBernoulli(1.0, 1.0), tmp_path / "coin.credo")
    assert "holds a BetaBernoulli, not a network" in run("coin.credo").output
