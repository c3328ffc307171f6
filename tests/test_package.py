"""The package as a whole: its public names, its lazy imports, what it prints of itself."""

import subprocess
import sys

import pytest

import credo


@pytest.mark.parametrize("name", [n for n in credo.__all__ if n not in {"kernels", "scale"}])
def test_every_public_name_resolves(name):
    assert getattr(credo, name) is not None


def test_unknown_names_are_attribute_errors():
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        _ = credo.Nonsense
    assert "fit" in dir(credo)


def test_importing_credo_is_light():
    code = "import sys, credo; print(sorted(m for m in ('jax', 'numpyro', 'sklearn', 'pandas') if m in sys.modules))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


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
