"""The package as a whole: its public names, its lazy imports, what it prints of itself."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import credo

PACKAGES = [
    "credo",
    *("credo." + name for name in ("plots", "decide", "decide.campaign", "models", "infer", "evaluate", "kernels")),
]


@pytest.mark.parametrize("name", PACKAGES)
def test_every_public_name_resolves(name):
    package = importlib.import_module(name)
    for public in package.__all__:
        assert getattr(package, public) is not None, public


def test_no_module_has_the_name_of_a_public_function_of_its_package():
    """The first import of such a module would put it in the function's place."""
    root = Path(credo.__file__).parent
    for stub in root.rglob("__init__.pyi"):
        package = ".".join(("credo", *stub.parent.relative_to(root).parts))
        lines = [node for node in ast.parse(stub.read_text()).body if isinstance(node, ast.ImportFrom)]
        public = {alias.asname for node in lines if node.module != package for alias in node.names}
        modules = {path.stem for path in stub.parent.iterdir() if path.suffix == ".py" or path.is_dir()}
        assert not (public & modules) - {"decide"}, package  # the verb is the package itself


def test_folders_resolve_after_import_credo():
    code = "import credo; credo.models.gp.GP, credo.decide.agents.QLearning, credo.decide.Campaign, credo.plots.bands"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_type_checkers_know_the_public_names(tmp_path):
    mypy = pytest.importorskip("mypy.api")
    script = tmp_path / "user.py"
    script.write_text(
        "import credo\n"
        "def job(campaign: credo.Campaign, p: credo.Predictive) -> credo.GP:\n"
        "    credo.decide(p, credo.losses.Squared()).action\n"
        "    credo.decide.Campaign\n"
        "    return credo.GP(noise='loud')\n"
    )
    out, _, _ = mypy.run([str(script)])  # with the cache of `make lint`
    assert "Found 0" in out or "no issues" in out, out


def test_unknown_names_are_attribute_errors():
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        _ = credo.Nonsense
    assert "fit" in dir(credo)


def test_importing_credo_is_light():
    code = "import sys, credo; print(sorted(m for m in ('jax', 'numpyro', 'sklearn', 'pandas') if m in sys.modules))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_importing_credo_leaves_jax_at_float32_until_a_belief_is_used():
    code = (
        "import credo, jax.numpy as jnp; before = jnp.ones(1).dtype; credo.Linear(); import jax; "
        "print(before, jnp.ones(1).dtype, jax.config.jax_persistent_cache_min_compile_time_secs)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.split() == ["float32", "float64", "0.0"]


def test_credo_can_be_told_to_leave_jax_alone():
    code = "import credo.core, jax; print(jax.config.jax_enable_x64, jax.config.jax_compilation_cache_dir)"
    env = {"CREDO_CONFIGURE": "0", "PATH": ""}
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env)
    assert out.stdout.split() == ["False", "None"]


def test_decide_is_a_verb_and_a_place():
    from credo.decide import Squared

    p = credo.core.predictive.Normal([1.0], [0.5], [0.5])
    decision = credo.decide(p, Squared())
    assert float(decision.action[0]) == 1.0 and float(decision.expected_loss[0]) == 1.0
    assert credo.losses.Squared is Squared
