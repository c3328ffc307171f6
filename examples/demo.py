"""`make demo`: two real tables through the command line, from CSV to a report.

Diabetes: 442 patients, what predicts the progression of the disease a year later (Efron et al. 2004).
CO2: the monthly mean concentration at Mauna Loa, 1958 to 2001 (Keeling & Whorf 2004).
"""

import subprocess
import sys
from pathlib import Path

from sklearn.datasets import load_diabetes

OUT = Path("out")


def write_tables() -> list[tuple[Path, str, list[str]]]:
    OUT.mkdir(exist_ok=True)
    diabetes = OUT / "diabetes.csv"
    frame = load_diabetes(scaled=False, as_frame=True).frame.rename(columns={"target": "progression"})
    frame.to_csv(diabetes, index=False)
    jobs: list[tuple[Path, str, list[str]]] = [(diabetes, "progression", ["--loss", "3,1"])]
    try:
        from statsmodels.datasets import co2
    except ModuleNotFoundError:
        print("statsmodels is not installed (extra `demo`): the CO2 series is left out")
        return jobs
    series = OUT / "co2.csv"
    monthly = co2.load_pandas().data["co2"].resample("MS").mean().dropna()
    monthly.rename_axis("month").round(2).to_csv(series)
    return [*jobs, (series, "co2", ["--time", "month"])]


def main() -> None:
    for table, target, more in write_tables():
        folder = OUT / table.stem
        print(f"\n$ credo fit {table} --target {target} {' '.join(more)} --out {folder} --force\n", flush=True)
        arguments = ["fit", str(table), "--target", target, *more, "--out", str(folder), "--force"]
        subprocess.run([sys.executable, "-m", "credo.app.cli", *arguments], check=True)
        report = (folder / "report.html").resolve()
        print(f"\nopen {report.as_uri()}")
        predicted = folder / "predicted.csv"
        again = ["predict", str(folder / "model.credo"), str(table), "--out", str(predicted), "--force"]
        subprocess.run([sys.executable, "-m", "credo.app.cli", *again], check=True)


if __name__ == "__main__":
    main()
