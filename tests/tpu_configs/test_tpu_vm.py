"""tpu_vm.sh: the commands that it would run, what it refuses, and runs with a gcloud of our own."""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from support import leftovers
from support.buckets import serving

SCRIPT = Path("tpu_configs/tpu_vm.sh").resolve()
WHERE = ["--name", "t", "--zone", "z"]
STAND_INS = Path(__file__).parent / "stand_ins"


def call(*arguments, path=os.environ["PATH"], cwd=None, script=SCRIPT, **environment):
    return subprocess.run(
        ["/bin/bash", str(script), *arguments],
        capture_output=True,
        text=True,
        cwd=cwd,
        env={"PATH": path, **leftovers.marks(), **environment},
    )


DRY_RUNS = Path(__file__).with_name("dry_runs.txt").read_text("utf-8").removeprefix("$ ")


@pytest.mark.parametrize("run", DRY_RUNS.split("\n$ "))
def test_dry_run(run):
    """The commands as dry_runs.txt has them: a change there is one of what users run."""
    line, _, expected = run.partition("\n")
    result = call(*shlex.split(line))
    assert result.returncode == 0, result.stderr
    assert result.stdout.replace(str(SCRIPT.parents[1]), "CHECKOUT").strip() == expected.strip()
    assert all(Path(lock).is_file() for lock in re.findall(r"requirements/\S+", expected))
    commands = subprocess.run(["/bin/bash", "-n"], input=expected, text=True, capture_output=True)
    assert commands.stderr == ""


def programs(folder, **names):
    """A PATH that begins with a new folder of stand-ins, by the names of the programs."""
    folder.mkdir()
    for name, stand_in in names.items():
        (folder / name).symlink_to(shutil.which(stand_in) or STAND_INS / stand_in)
    return f"{folder}:{os.environ['PATH']}"


@pytest.fixture
def gcloud(tmp_path):
    """Calls the script with a gcloud of this machine, from the folder tmp_path/here."""
    for name in ("here", "temporary"):
        (tmp_path / name).mkdir()
    # So that setup ends where it would install.
    path = programs(tmp_path / "bin", gcloud="gcloud_of_a_host", python3="false")
    environment = {"TMPDIR": str(tmp_path / "temporary"), "HOST": str(tmp_path / "host")}
    environment |= {"path": path, "cwd": tmp_path / "here"}
    return lambda command, *options, **more: call(command, *WHERE, *options, **environment, **more)


def checkout(folder, files=None):
    """A copy of the script in a repository of its own, with one commit; returns the script."""
    script = f"tpu_configs/{SCRIPT.name}"
    every = {script: SCRIPT.read_text(), "README.md": "committed", **(files or {})}
    for name, text in every.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    git = ["git", "-C", folder, "-c", "user.name=a", "-c", "user.email=a@b", "-c", "gc.auto=0"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "all"]):
        subprocess.run([*git, *command], check=True)
    return folder / script


def test_setup_copies_the_whole_commit_from_any_folder_and_leaves_nothing(tmp_path, gcloud):
    script = checkout(tmp_path / "checkout")
    (tmp_path / "checkout" / "README.md").write_text("changed")
    failed = gcloud("setup", script=script)  # there is no host
    assert failed.returncode != 0
    assert "changes that are in no commit, and are not copied: 1\n" in failed.stderr
    (tmp_path / "host").mkdir()
    gcloud("setup", script=script)
    with tarfile.open(tmp_path / "host" / "lambda_keras.tar.gz") as archive:
        assert {"README.md", f"tpu_configs/{SCRIPT.name}"} <= set(archive.getnames())
        assert archive.extractfile("README.md").read() == b"committed"
    for name in ("here", "temporary"):
        assert not list((tmp_path / name).iterdir())
    subprocess.run(["git", "-C", script.parent, "checkout", "-q", ".."], check=True)
    assert "no commit" not in gcloud("setup", "--dry-run", script=script).stderr


@pytest.mark.needs("flock")
def test_second_run_is_refused_and_stop_waits_until_the_first_has_saved(tmp_path, gcloud):
    folder = tmp_path / "host" / "lambda_keras"
    for name in ("zoo", ".venv/bin"):
        (folder / name).mkdir(parents=True)
    shutil.copy(STAND_INS / "train", folder / "zoo" / "train.py")
    (folder / ".venv" / "bin" / "python").symlink_to(sys.executable)
    log = folder / "train.log"
    try:
        started = gcloud("train", "--", "--seed", "3")
        assert (started.returncode, started.stderr) == (0, "")
        leftovers.wait(lambda: "started" in log.read_text())
        assert gcloud("status").stdout == "a run is active\nstarted --seed 3\n"
        second = gcloud("train", "--", "--seed", "4")
        assert second.returncode == 2
        assert second.stderr == "error: a run is active here already; stop ends it\n"
    finally:
        stopped = gcloud("stop")
    assert (stopped.returncode, stopped.stdout, stopped.stderr) == (0, "", "")
    assert log.read_text() == "started --seed 3\nsaved\n"
    assert gcloud("status").stdout == "no run is active\nsaved\n"
    assert gcloud("stop").stdout == "no run is active\n"


BUCKET = ["--config", "a", "--output_dir", "gs://b/run"]


@pytest.fixture
def cloud(tmp_path):
    """Starts `tpu_vm.sh run` of a checkout in such a cloud."""
    script = checkout(tmp_path / "checkout", {"zoo/train.py": (STAND_INS / "run").read_text()})
    (tmp_path / "cloud").mkdir()
    stand_ins = {"gcloud": "gcloud_of_a_cloud", "uv": "uv_of_a_cloud", "python3": "true"}
    path = programs(tmp_path / "bin", **stand_ins)
    places = {"CLOUD": str(tmp_path / "cloud"), "PYTHON": sys.executable}

    def start(ends, failing=(), options=(), arguments=BUCKET, **environment):
        """`ends` has one word for each start, `failing` the kinds of calls that fail first."""
        (tmp_path / "cloud" / "ends").write_text(ends)
        (tmp_path / "cloud" / "failing").write_text("".join(f"{kind}\n" for kind in failing))
        return subprocess.Popen(
            ["/bin/bash", script, "run", *WHERE, "--pause", "0", *options, "--", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={"PATH": path, "HOME": str(tmp_path), **places, **leftovers.marks(), **environment},
        )

    def end(*arguments, **options):
        """The exit code and the output of a run."""
        process = start(*arguments, **options)
        output, _ = process.communicate(timeout=500)
        return process.returncode, output

    start.end, start.folder = end, tmp_path / "cloud"
    start.starts = lambda: (start.folder / "bucket").read_text().splitlines()
    yield start
    (start.folder / "go").touch()


@pytest.mark.needs("flock")
@pytest.mark.parametrize(
    ("ends", "failing"),
    [
        ("preempted preempted 0", ["create"] * 3),
        ("0", ["ssh"] * 2),
        ("preempted 0", ["describe", "describe"]),
        ("preempted 0", ["create", "create", "scp", "ssh", "ssh", "ssh", "delete", "describe"]),
    ],
    ids=lambda value: "-".join(value.split() if isinstance(value, str) else value),
)
def test_run_goes_on_until_it_is_finished(cloud, ends, failing):
    code, output = cloud.end(ends, failing)
    assert code == 0, output
    assert cloud.starts() == [" ".join(BUCKET)] * len(ends.split())
    assert "the run ended with code 0" in output
    assert not (cloud.folder / "state").exists()  # deleted
    assert (cloud.folder / "failing").read_text() == ""


REAL = (
    "--strategy one_device --model.image_size 8 --training.epochs 1 --optimizer.warmup_epochs 0 "
    "--training.checkpoint_steps 8 --output_dir gs://bucket/run"
)


@pytest.mark.needs("flock")
@pytest.mark.slow
def test_preempted_run_resumes_from_its_bucket(cloud):
    """`zoo.train` itself, on two machines of which the first is lost while it saves."""

    def preempt():
        os.kill(int((cloud.folder / "host/lambda_keras/train.pid").read_text()), signal.SIGKILL)
        (cloud.folder / "state").write_text("PREEMPTED")

    with serving() as server:
        server.fail("break", "upload bucket/run/checkpoints/step-000000016", then=preempt)
        path = {"PYTHONPATH": os.pathsep.join(sys.path), "CUDA_VISIBLE_DEVICES": "-1"}
        code, output = cloud.end("", arguments=REAL.split(), **path, **server.environment)
    assert code == 0, output
    assert "resuming after step 8 of 22" in output
    assert "the run ended with code 0" in output
    assert "bucket/run/metrics.json" in server.objects
    assert not server.refused
    assert not (cloud.folder / "state").exists()  # deleted
    assert (cloud.folder / "calls").read_text().split().count("create") == 2


@pytest.mark.needs("flock")
@pytest.mark.parametrize(
    ("ends", "failing", "message"),
    [
        ("2", [], "run: zoo.train refused its settings"),
        ("preempted 1", [], "run: ended with code 1, see above"),
        ("0", ["create"] * 9, "run: gave up after 5 attempts, the last one with state none"),
    ],
)
def test_run_that_cannot_be_finished_says_so(cloud, ends, failing, message):
    code, output = cloud.end(ends, failing, options=["--attempts", "5"])
    assert code == 2, output
    assert f"error: {message}" in output.splitlines()[-1]
    assert (cloud.folder / "state").exists() == ("create" not in failing)


def test_run_whose_machines_are_not_there_ends(cloud):
    (cloud.folder / "nowhere").touch()
    code, output = cloud.end("0")
    assert code == 2
    assert output.splitlines()[-1].startswith("error: run: gcloud created t 3 times, but describes")
    assert (cloud.folder / "calls").read_text().split().count("create") == 3


@pytest.mark.needs("flock")
def test_same_command_goes_on_with_a_run_that_is_active(cloud):
    first = cloud("waits")
    leftovers.wait((cloud.folder / "bucket").exists)
    first.kill()
    first.wait()
    first.stdout.close()
    second = cloud("waits")
    assert any("start 1" in line for line in second.stdout), "ended before"  # of the log
    (cloud.folder / "go").touch()
    output, _ = second.communicate(timeout=120)
    assert second.returncode == 0, output
    assert len(cloud.starts()) == 1
