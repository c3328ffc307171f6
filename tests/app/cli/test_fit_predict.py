import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import credo
from credo.app.cli import app
from credo.app.table.read import read_table


def call(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


def refused(result, message):
    assert result.exit_code == 2, result.output
    lines = result.stderr.strip().splitlines()
    assert len(lines) == 1 and lines[0].startswith("credo: ") and message in lines[0], result.stderr
    assert result.stdout == ""


def write(tmp_path, text, name="t.csv"):
    path = tmp_path / name
    path.write_text(text)
    return path


def test_nothing_heavy_is_imported_before_a_command_runs():
    code = (
        "import sys; import credo.app.cli; "
        "heavy = {'jax', 'pandas', 'numpy', 'matplotlib', 'scipy', 'equinox'} & set(sys.modules); print(sorted(heavy))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_as_a_program():
    done = subprocess.run(
        [sys.executable, "-m", "credo.app.cli", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"credo {credo.__version__}\n"
    done = subprocess.run(
        [sys.executable, "-m", "credo.app.cli", "fit", "none.csv", "--target", "y"], capture_output=True, text=True
    )
    assert done.returncode == 2 and done.stderr == "credo: there is no file none.csv\n" and done.stdout == ""


def test_help_names_the_commands():
    assert "fit" in call("--help").output and "predict" in call("--help").output
    assert "aleatoric" in call("predict", "--help").output


def test_fit_writes_a_model_and_a_report(fitted):
    assert sorted(p.name for p in fitted.out.iterdir()) == ["model.credo", "report.html"]
    assert (
        "chosen by rows left out in turn: " in fitted.run.stdout
        and str(fitted.out / "report.html") in fitted.run.stdout
    )


def test_existing_results_are_not_replaced(fitted, tmp_path):
    before = (fitted.out / "model.credo").read_bytes()
    refused(call("fit", fitted.csv, "--target", "cost", "--out", fitted.out), "exists already; pass --force")
    # Even with --force an error leaves what was there.
    refused(call("fit", fitted.csv, "--target", "cots", "--out", fitted.out, "--force"), "did you mean 'cost'?")
    assert (fitted.out / "model.credo").read_bytes() == before
    assert sorted(p.name for p in fitted.out.iterdir()) == ["model.credo", "report.html"]


def test_predictions_are_the_belief_s_own(fitted, tmp_path):
    out = tmp_path / "p.csv"
    done = call("predict", fitted.model, fitted.csv, "--out", out, "--level", "0.8", "--loss", "4,1")
    assert done.exit_code == 0 and "1 row of 90 with missing inputs left without a prediction" in done.stderr
    table, original = pd.read_csv(out, dtype=str, na_filter=False), pd.read_csv(fitted.csv, dtype=str, na_filter=False)
    pd.testing.assert_frame_equal(table[original.columns], original)
    model = credo.load(fitted.model)
    whole = fitted.frame["weight"].notna().to_numpy()
    want = model.predict(fitted.frame[whole])
    lower, upper = want.interval(0.8)
    action = credo.decide(want, credo.losses.Asymmetric(under=4.0, over=1.0)).action
    columns = {
        "mean": want.mean,
        "std": want.std,
        "lower": lower,
        "upper": upper,
        "aleatoric": want.aleatoric,
        "epistemic": want.epistemic,
        "action": action,
    }
    for name, values in columns.items():
        assert table[name][3] == ""
        np.testing.assert_allclose(table[name][whole].astype(float), values, rtol=1e-8)
    doubt = table[whole].astype({"std": float, "aleatoric": float, "epistemic": float})
    np.testing.assert_allclose(doubt["std"] ** 2, doubt["aleatoric"] + doubt["epistemic"], rtol=1e-8)


def test_predictions_to_standard_output_in_the_dialect_of_the_table(fitted, tmp_path):
    frame = fitted.frame.dropna().head(4)
    frame.to_csv(tmp_path / "new.csv", sep=";", decimal=",", index=False)
    done = call("predict", fitted.model, tmp_path / "new.csv")
    assert done.exit_code == 0
    header, first, *_ = done.stdout.splitlines()
    assert header.startswith("order_id;size;") and header.endswith(";mean;std;lower;upper;aleatoric;epistemic")
    want = float(credo.load(fitted.model).predict(frame).mean[0])
    assert float(first.split(";")[-6].replace(",", ".")) == pytest.approx(want, rel=1e-8)


def test_names_that_are_taken_get_the_target_in_front(fitted, tmp_path):
    fitted.frame.dropna().head(4).assign(mean=1).to_parquet(tmp_path / "new.parquet")
    out = tmp_path / "p.parquet"
    assert call("predict", fitted.model, tmp_path / "new.parquet", "--out", out).exit_code == 0
    assert list(pd.read_parquet(out).columns[-6:]) == [
        f"cost_{name}" for name in ("mean", "std", "lower", "upper", "aleatoric", "epistemic")
    ]


def test_surprises_in_new_tables_are_counted(fitted, tmp_path):
    new = fitted.frame.dropna().head(5).astype(object)
    new.loc[new.index[0], "weight"] = 99
    new.loc[new.index[1], "size"] = "gigantic"
    new.loc[new.index[2], "weight"] = "heavy"
    new.drop(columns=["cost", "unit", "order_id"]).to_csv(tmp_path / "new.csv", index=False)
    done = call("predict", fitted.model, tmp_path / "new.csv", "--out", tmp_path / "p.csv")
    assert "1 row beyond the range of the training data: weight (1)" in done.stderr
    assert "1 row with a level of 'size' that was never seen" in done.stderr
    assert "1 cell of 'weight' could not be read" in done.stderr
    assert len(read_table(tmp_path / "p.csv").frame) == 5


GOOD = "a,b,y\n" + "\n".join(f"{i},{i * i % 7},{2 * i + i % 3}" for i in range(12)) + "\n"


@pytest.mark.parametrize(
    ("text", "arguments", "message"),
    [
        (GOOD, ["--target", "Y2"], "has no column 'Y2' for --target; did you mean 'y'?"),
        (GOOD, ["--target", "revenue"], "the columns are: a, b, y"),
        (GOOD, ["--target", "y", "--ignore", "z"], "no column 'z' for --ignore"),
        (GOOD, ["--target", "y", "--time", "z"], "no column 'z' for --time"),
        (GOOD, ["--target", "y", "--test", "1.2"], "--test is the share of rows"),
        (GOOD, ["--target", "y", "--loss", "5"], "--loss takes two numbers"),
        (GOOD, ["--target", "y", "--loss", "5,-1"], "--loss takes two positive costs"),
        ("a,y\n1,2\n2,2\n3,2\n", ["--target", "y"], "is constant (2 in every row)"),
        ("a,y\n1,2\n", ["--target", "y"], "1 usable row; at least 6"),
        ("a,y\n1,yes\n2,no\n", ["--target", "y"], "2 usable rows; at least 6"),
        ("a,y\n1,7\n2,8\n3,no\n", ["--target", "y"], "found text: 'no' in row 3"),
        ("a,a,y\n1,2,3\n", ["--target", "y"], "two columns named 'a'"),
        ("a,y\n1,\n2,NA\n", ["--target", "y"], "0 usable rows"),
        ("", ["--target", "y"], "is empty"),
        ("a,y\n1,2\n1,2,3,4\n", ["--target", "y"], "line 3"),
        (GOOD, ["--target", "y", "--seconds", "soon"], "--seconds takes a duration"),
        (GOOD, ["--target", "y", "--decimal", ";"], "--decimal is the decimal mark"),
        (
            "a,y\n" + "".join(f'"{i},117",{i * i}\n' for i in range(1, 9)),
            ["--target", "y"],
            "say which is meant, --decimal . or --decimal ,",
        ),
    ],
)
def test_refusals_of_fit(tmp_path, text, arguments, message):
    refused(call("fit", write(tmp_path, text), *arguments, "--out", tmp_path / "out"), message)
    assert not (tmp_path / "out").exists()


def test_refusals_of_places(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path, GOOD)
    refused(call("fit", "t.csv", "--target", "y", "--out", "t.csv"), "t.csv is a file; --out names a folder")
    refused(call("fit", tmp_path, "--target", "y"), "is a folder")


def test_refusals_of_predict(fitted, tmp_path):
    broken = tmp_path / "broken.credo"
    broken.write_bytes(fitted.model.read_bytes()[:-100])
    refused(call("predict", broken, fitted.csv), "not one that credo wrote")
    refused(call("predict", write(tmp_path, "text", "m.credo"), fitted.csv), "damaged or not a .credo file")
    refused(call("predict", tmp_path / "none.credo", fitted.csv), "there is no file")
    refused(call("predict", fitted.model, tmp_path / "none.csv"), "there is no file")
    refused(call("predict", fitted.model, fitted.csv, "--level", "95"), "--level must lie between 0 and 1")
    refused(call("predict", fitted.model, fitted.csv, "--out", fitted.csv), "exists already")
    refused(call("predict", fitted.model, write(tmp_path, "size,weight\nsmall,1\n")), "lacks the columns")
    other = credo.save(credo.Linear(), tmp_path / "other.credo")
    refused(call("predict", other, fitted.csv), "holds a Linear, not a model that `credo fit` wrote")
    empty = write(tmp_path, "size,weight,express,shipped\nsmall,,yes,2020-01-01\n", "gaps.csv")
    refused(call("predict", fitted.model, empty), "every row")


def test_a_negative_seed_is_refused_and_not_a_traceback(tmp_path):
    done = call("fit", write(tmp_path, GOOD), "--target", "y", "--seed", "-1")
    assert done.exit_code == 2 and "--seed" in done.stderr and "Traceback" not in done.output


def test_damaged_and_long_tables_are_refused_in_a_line(tmp_path):
    import gzip

    packed = tmp_path / "t.csv.gz"
    packed.write_bytes(gzip.compress(GOOD.encode())[:-12] + b"garbage here")
    refused(call("fit", packed, "--target", "y"), "cannot read")
    long = write(tmp_path, "note,y\n" + "".join(f"{'x' * 140_000},{i}\n" for i in range(3)))
    refused(call("fit", long, "--target", "y"), "usable rows")


def test_messages_of_the_library_name_options():
    from credo.app.cli.terminal import as_options

    assert (
        as_options('`test` is a share; use kind="count" or test=0.2.')
        == "--test is a share; use --kind count or --test 0.2."
    )
    assert as_options("the column 'kind=a' and `other`") == "the column 'kind=a' and `other`"


def test_names_of_classes_that_look_like_formulas_are_quoted(tmp_path):
    from credo.app.cli.predict import write_table

    frame = pd.DataFrame({"note": ["=1+1", "b"], "class": ["=cmd", "-x"], "p": [0.1, 0.2]})
    write_table(frame, ("class", "p"), tmp_path / "p.csv", ",", ".")
    assert (tmp_path / "p.csv").read_text() == "note,class,p\n=1+1,'=cmd,0.1\nb,'-x,0.2\n"


def test_options_are_grouped_by_kind_of_target():
    text = call("fit", "--help").output
    for panel in ("For numbers", "For classes", "For counts", "For series"):
        assert panel in text
