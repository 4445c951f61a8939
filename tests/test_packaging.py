"""The wheel holds every package and every file that one of them opens; the command, every job."""

import re
import runpy
import subprocess
import sys
from configparser import ConfigParser
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from kip_replay.jobs import _steps
from kip_replay.jobs.main import JOBS, main
from kip_replay.pipelines.errors import UserError
from tools import delta_jars

REPOSITORY = Path(__file__).resolve().parents[1]
SETUP = ConfigParser()
SETUP.read(REPOSITORY / "setup.cfg", encoding="utf-8")


def files_of(*tops: str) -> set[Path]:
    """The files of folders of the clone, relative to it, without what Python keeps there."""
    found = [path for top in tops for path in (REPOSITORY / top).rglob("*") if path.is_file()]
    return {path.relative_to(REPOSITORY) for path in found if path.parent.name != "__pycache__"}


def test_every_folder_with_modules_is_a_package_of_the_wheel() -> None:
    modules = {path for path in files_of("jobs", "pipelines", "replay") if path.suffix == ".py"}
    folders = {f"kip_replay.{'.'.join(path.parent.parts)}" for path in modules}
    assert {*SETUP["options"]["packages"].split()} == folders | {"kip_replay", "kip_replay.conf"}


def test_every_other_file_is_data_of_the_wheel() -> None:
    held = {
        file.relative_to(REPOSITORY)
        for package, patterns in SETUP["options.package_data"].items()
        for pattern in patterns.split(", ")
        for file in REPOSITORY.joinpath(*package.split(".")[1:]).glob(pattern)
    }
    files = files_of("conf", "data/samples/metadata-4.0", "jobs", "pipelines", "replay")
    assert {path for path in files if path.suffix != ".py" or path.parts[0] == "conf"} == held


def test_constraints_are_what_is_installed_and_lie_in_the_ranges_of_the_wheel() -> None:
    lines = (REPOSITORY / "constraints.txt").read_text().splitlines()
    pins = [line.split("==") for line in lines if not line.startswith("#")]
    tested = {canonicalize_name(name): pinned for name, pinned in pins}
    wanted = [SETUP["options"]["install_requires"], *SETUP["options.extras_require"].values()]
    for line in "\n".join(wanted).split("\n"):
        if line and not line.startswith("#"):
            requirement = Requirement(line)
            pinned = tested[canonicalize_name(requirement.name)]
            assert requirement.specifier.contains(pinned), line
            assert version(requirement.name) == pinned


def test_the_oldest_that_is_tested_is_the_oldest_that_is_taken() -> None:
    extras = SETUP["options.extras_require"]
    wanted = f"{SETUP['options']['install_requires']}\n{extras['spark']}"
    lines = (REPOSITORY / "constraints-oldest.txt").read_text().splitlines()
    oldest = [line.replace("==", " >= ") for line in lines if not line.startswith("#")]
    assert all(f"{floor}, <" in wanted for floor in oldest)
    assert len(oldest) == 4


def test_links_of_the_long_description_work_outside_of_the_clone() -> None:
    setup: dict[str, Any] = runpy.run_path(str(REPOSITORY / "setup.py"))
    page = setup["with_absolute_links"]((REPOSITORY / "README.md").read_text())
    links = re.findall(r"(!?)\[[^]]*\]\(([^)]*)\)", page)
    url = setup["REPOSITORY_URL"]
    assert ("!", f"{url}/raw/main/docs/report.png") in links
    assert ("", f"{url}/blob/main/docs/tutorial.md") in links
    assert [link for _, link in links if not re.match(r"https://|#", link)] == []


def test_without_spark_one_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_steps, "find_spec", lambda _: None)
    job: Any = SimpleNamespace(warehouse=list, arguments=SimpleNamespace(engine="spark"))
    with pytest.raises(UserError, match=r"pip install 'kip-replay\[spark\]': or give --engine"):
        _steps.engine_of(job)


def test_every_job_is_listed() -> None:
    modules = {path.stem for path in (REPOSITORY / "jobs").glob("[!_]*.py")}
    assert {*JOBS} == modules - {"main"}


def test_help_and_an_unknown_command_import_no_job(capsys: pytest.CaptureFixture[str]) -> None:
    program = "import sys; from kip_replay.jobs.main import main; main([]); print(*sys.modules)"
    command = [sys.executable, "-c", program]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    listed, modules = printed.rsplit("\n", 2)[:2]
    assert all(f"\n  {job} " in listed for job in JOBS)
    assert not {"pyspark", "pyarrow", "kip_replay.jobs.run"} & {*modules.split()}
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"kip-replay {SETUP['metadata']['version']}\n"
    with pytest.raises(SystemExit, match="2"):
        main(["rum"])
    assert capsys.readouterr().err.startswith("error: there is no command 'rum': is 'run' meant?")


def test_a_job_that_fails_raises_its_status(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["recordings", "--nonsense"])
    assert "(kip-replay recordings --help shows examples)" in capsys.readouterr().err


def test_jars_are_those_that_were_tested(tmp_path: Path) -> None:
    names = delta_jars.MANIFEST.read_text().split()
    installed = {delta_jars.SPARK_JARS_DIR / name: name for name in names}
    delta_jars._require_known(installed)
    assert len(installed) == len(delta_jars.CHECKSUMS.read_text().splitlines())
    other = tmp_path / names[0]
    other.write_bytes((delta_jars.SPARK_JARS_DIR / names[0]).read_bytes() + b"\0")
    for jars in ({other: names[0]}, installed | {other: "unknown-1.0.jar"}):
        with pytest.raises(SystemExit, match="not the jar that this program was tested with"):
            delta_jars._require_known(jars)
