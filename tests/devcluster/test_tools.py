"""Where a program is looked for, and what decides which one it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from devcluster import tools


def _program(directory: Path, name: str = "etcd") -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / name
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"XDG_CACHE_HOME": str(tmp_path / "cache"), "KUBEBUILDER_ASSETS": str(tmp_path / "assets")}


def test_a_program_in_kubebuilder_assets_is_preferred_to_the_cache(environ: dict[str, str], tmp_path: Path) -> None:
    _program(tools.module_directory(tools.CONTROL_PLANE, environ))
    wanted = _program(tmp_path / "assets")
    assert tools.find("etcd", environ) == wanted


def test_what_kubebuilder_assets_lacks_comes_from_the_cache(environ: dict[str, str], tmp_path: Path) -> None:
    _program(tmp_path / "assets", "etcd")
    wanted = _program(tools.module_directory(tools.CONTROL_PLANE, environ), "kwok")
    assert tools.find("kwok", environ) == wanted


def test_a_file_that_cannot_be_run_is_not_a_program(environ: dict[str, str], tmp_path: Path) -> None:
    _program(tmp_path / "assets").chmod(0o644)
    assert tools.find("etcd", environ) is None


def test_the_cache_lies_where_the_user_wants_it(tmp_path: Path) -> None:
    assert tools.cache_directory({"XDG_CACHE_HOME": str(tmp_path)}) == tmp_path / "seiretsu"


def test_another_pin_means_another_directory(tmp_path: Path) -> None:
    for name in ("go.mod", "go.sum"):
        (tmp_path / name).write_bytes((tools.HELM.directory / name).read_bytes())
    copy = tools.Module("helm", tmp_path, tools.HELM.tools, tools.HELM.minutes)
    assert tools.module_hash(copy) == tools.module_hash(tools.HELM)
    (tmp_path / "go.sum").write_text("another")
    assert tools.module_hash(copy) != tools.module_hash(tools.HELM)


def test_programs_are_stamped_with_the_version_their_module_pins() -> None:
    apiserver = next(tool for tool in tools.CONTROL_PLANE.tools if tool.name == "kube-apiserver")
    version = tools.module_versions(tools.CONTROL_PLANE.directory)["k8s.io/kubernetes"]
    stamps = tools.stamps(apiserver, tools.CONTROL_PLANE.directory)
    assert stamps["k8s.io/component-base/version.gitVersion"] == version
    assert stamps["k8s.io/component-base/version.gitMinor"] == version.split(".")[1]


@pytest.mark.parametrize("module", tools.ALL, ids=lambda module: module.name)
def test_every_module_pins_the_source_of_all_its_programs(module: tools.Module) -> None:
    versions = tools.module_versions(module.directory)
    sources = [each.source for each in module.tools] + [each.source for each in module.manifests]
    assert all(source in versions for source in sources)


def test_a_program_that_is_not_in_the_table_is_unknown() -> None:
    with pytest.raises(KeyError):
        tools.module_of("kube-proxy")
