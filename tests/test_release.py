"""Workflow, container files and CITATION.cff: what they name exists."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from support.commands import parse

import lambda_keras

pytestmark = pytest.mark.one_backend

ROOT = Path(__file__).resolve().parents[1]
JOBS = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())["jobs"]
COMPOSE = yaml.safe_load((ROOT / "compose.yaml").read_text())
DOCKERFILE = (ROOT / "Dockerfile").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
BUILT = {name: service for name, service in COMPOSE["services"].items() if "build" in service}


def test_extras_allow_every_tensorflow_that_is_tested():
    texts = ((ROOT / name).read_text() for name in ("requirements/constraints.txt", "Makefile"))
    versions = [re.search(r"\btensorflow==([\d.]+)", text)[1] for text in texts]
    for extra in ("tensorflow", "gpu", "export"):
        (allowed,) = [
            requirement.specifier
            for requirement in map(Requirement, PROJECT["optional-dependencies"][extra])
            if requirement.name in ("tensorflow", "tensorflow-serving-api")
        ]
        assert [version for version in versions if version not in allowed] == []


def test_tags_are_published_after_all_other_jobs():
    assert {*JOBS["publish"]["needs"]} == JOBS.keys() - {"publish"}
    assert JOBS["publish"]["if"] == "github.ref_type == 'tag'"


def test_dockerfile_copies_and_installs_what_exists():
    copied = [names.split()[:-1] for names in re.findall(r"^COPY (.+)", DOCKERFILE, re.MULTILINE)]
    assert [name for names in copied for name in names if not (ROOT / name).exists()] == []
    extras = re.findall(r"'\.\[([\w,]+)\]'", DOCKERFILE)
    assert {*",".join(extras).split(",")} <= PROJECT["optional-dependencies"].keys()
    (command,) = re.findall(r'^ENTRYPOINT \["([\w-]+)"\]', DOCKERFILE, re.MULTILINE)
    assert command in PROJECT["scripts"]


@pytest.mark.parametrize("name", BUILT)
def test_compose_file_has_commands_with_known_settings(name, tmp_path):
    service = BUILT[name]
    assert re.search(rf"^FROM \w+ AS {service['build']['target']}$", DOCKERFILE, re.MULTILINE)
    # Places in the container, by their places on the host.
    places = dict(volume.split(":")[1::-1] for volume in service.get("volumes", ()))
    for secret in service.get("secrets", ()):
        places[f"/run/secrets/{secret}"] = COMPOSE["secrets"][secret]["file"]
    (tmp_path / "password.txt").write_text("correct horse")

    verb, *words = service["command"].split()
    for index, word in enumerate(words):
        if word.startswith("/"):
            (place,) = (place for place in places if word.startswith(place))
            words[index] = word.replace(place, str(tmp_path / places[place]))
    parse(f"zoo.{verb}", words)


def test_citation_has_the_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == lambda_keras.__version__
    assert citation["license"] == PROJECT["license"]
