"""``python -m fusewright doctor``, as a user calls it; no GPU and no engine is needed."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest


def doctor(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **variables}
    command = [sys.executable, "-m", "fusewright", "doctor", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)


def findings(ran: subprocess.CompletedProcess[str]) -> dict[str, dict[str, object]]:
    return {finding["subject"]: finding for finding in json.loads(ran.stdout)["findings"]}


def test_the_report_has_the_interpreter_and_its_packages():
    import torch

    ran = doctor("--json", FUSEWRIGHT_VLLM="", FUSEWRIGHT_SGLANG="")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    found = findings(ran)
    assert {"python", "package", "torch", "vllm", "sglang", "processor", "Cranelift"} <= found.keys()
    assert found["torch"]["found"].startswith(torch.__version__.partition("+")[0])
    assert all(found[name]["section"] == "python" for name in ("python", "torch", "vllm"))


@pytest.mark.parametrize("variable", ["FUSEWRIGHT_MODE", "FUSEWRIGHT_INNER"])
def test_an_option_of_a_variable_that_is_none_fails(variable: str) -> None:
    ran = doctor("--json", **{variable: "fast"})
    found = findings(ran)[variable]
    assert ran.returncode == 1 and found["found"] == "fast" and "set it to" in str(found["problem"]), found
    good = {"FUSEWRIGHT_MODE": "relaxed", "FUSEWRIGHT_INNER": "inductor"}[variable]
    ran = doctor("--json", **{variable: good})
    assert ran.returncode == 0 and findings(ran)[variable]["found"] == good


def test_people_read_the_same():
    ran = doctor()
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "python\n  python " in ran.stdout and "its result is right" in ran.stdout


def test_torch_is_not_imported():
    code = "import sys; from fusewright import _doctor; _doctor.report(); sys.exit('torch' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stderr


def test_an_engine_that_is_asked_for_and_missing_fails():
    try:
        import vllm  # noqa: F401
    except ImportError:
        pass
    else:
        pytest.skip("vllm is installed")
    ran = doctor("--json", FUSEWRIGHT_VLLM="pass")
    found = findings(ran)
    assert ran.returncode == 1
    assert found["vllm"]["problem"]["fails"] and "FUSEWRIGHT_VLLM" in found["vllm"]["problem"]["remedy"]


def test_an_older_torch_is_advised_against(monkeypatch):
    from fusewright import _doctor

    class Old:
        version = "2.4.1+cpu"

    monkeypatch.setattr(_doctor, "distribution", lambda name: Old)
    monkeypatch.setattr(_doctor, "requires", lambda name: ['torch>=2.9; extra == "torch"'])
    subject, found, _, problem = _doctor._torch()
    assert subject == "torch" and found.startswith("2.4.1") and problem == ("install torch 2.9 or later", False)
