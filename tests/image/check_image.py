"""The image as the Dockerfile builds it, without a container engine: `make image-test`. It needs root, apt and some
minutes; what needs less is tested in `make test`.
"""

from __future__ import annotations

import json
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from devcluster.controlplane import ControlPlane, Spec
from devcluster.nodes import NodeGroup
from image.clean_root import Image, build, container, inside, listing
from tests.cluster.charted import NAMESPACE, RELEASE, get, helm, install
from tests.cluster.test_chart import the_demo_runs_unchanged
from tests.image.test_dockerfile import copied_of_the_command_line
from tests.serving import Served

SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
IMPORT_ALL = """
import importlib, pathlib, sys
for root in ("/usr/lib/python3.13/lib-dynload", "/opt/seiretsu"):
    sys.path.insert(0, root)
    for file in pathlib.Path(root).rglob("*.so"):
        name = ".".join(file.relative_to(root).parts).partition(".cpython")[0].removesuffix(".abi3.so")
        if not name.rpartition(".")[2].startswith(("_test", "_xx", "xx")):
            importlib.import_module(name)
            print(name)
"""


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    return build(tmp_path_factory.mktemp("image"), {"REVISION": "abc"})


def files(image: Image) -> Iterator[Path]:
    """The regular files of the image."""
    return (each for each in image.root.rglob("*") if each.is_file() and not each.is_symlink())


def test_there_is_no_shell_no_package_manager_and_no_compiler(image: Image) -> None:
    executable = [each for each in files(image) if each.stat().st_mode & 0o111]
    programs = {each.name for each in executable if each.read_bytes().startswith(b"\x7fELF")}
    assert {name for name in programs if ".so" not in name} == {"python3.13"}
    folders = {each.name.partition("-")[0] for each in inside(image.root, "/opt/seiretsu").iterdir()}
    assert not folders & {"pip", "setuptools", "wheel", "kubernetes"}
    assert not [
        each for each in image.root.rglob("*") if each.name in ("pip", "ensurepip", "sh", "bash", "dash", "apt")
    ]


def test_of_the_program_there_is_only_serve(image: Image) -> None:
    program = inside(image.root, "/opt/seiretsu/seiretsu/program")
    assert not (program / "devcluster").exists()
    wanted = {Path(each).name for each in copied_of_the_command_line()}  # what serve imports
    assert {each.name for each in (program / "cli").glob("*.py")} == wanted


def test_it_runs_as_a_user_without_rights_who_can_read_everything_and_write_nothing(image: Image) -> None:
    assert image.user == "65532:65532"
    for each in image.root.rglob("*"):
        mode, owner = each.lstat().st_mode, each.lstat().st_uid
        assert owner == 0
        assert stat.S_ISLNK(mode) or mode & 0o004, each
        assert not mode & (stat.S_ISUID | stat.S_ISGID), each
        assert stat.S_ISLNK(mode) or not mode & 0o022, each


def test_every_library_that_a_module_needs_is_in_it(image: Image) -> None:
    words = ["chroot", "--userspec=65532:65532", str(image.root), "/usr/bin/python3.13", "-I", "-B", "-c", IMPORT_ALL]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert {"_ssl", "uvloop.loop", "orjson.orjson"} <= set(done.stdout.split())


def test_it_lists_its_packages_and_is_labelled(image: Image) -> None:
    sbom = json.loads(inside(image.root, "/opt/seiretsu/sbom.spdx.json").read_text())
    found = {each["name"]: each for each in sbom["packages"]}
    assert found["libssl3t64"]["checksums"][0]["algorithm"] == "SHA256"
    assert {"seiretsu", "aiohttp", "libc6", "python3.13-minimal"} <= found.keys()
    installed = {each.name.lower() for each in inside(image.root, "/opt/seiretsu").glob("*.dist-info")}
    assert len(installed) == len([each for each in found.values() if "pypi" in each["SPDXID"]])
    assert image.labels["org.opencontainers.image.title"] == "Seiretsu"
    assert image.labels["org.opencontainers.image.revision"] == "abc"


def test_the_same_sources_give_the_same_bytes(image: Image, tmp_path: Path) -> None:
    again = build(tmp_path, {"REVISION": "abc"})
    assert list(listing(again.root)) == list(listing(image.root))


def test_it_becomes_ready_and_admits_jobs_with_a_read_only_root(image: Image, tmp_path: Path) -> None:
    """The container of the chart's Deployment: its arguments, its files, the token of its service account."""
    with ControlPlane.start(spec=Spec(nodes=(NodeGroup(labels={"seiretsu.dev/pool": "standard"}),))) as plane:
        install(plane, tmp_path)
        pod = get(plane, "deployment", f"{RELEASE}-controller-manager", "-n", NAMESPACE)["spec"]["template"]["spec"]
        (settings,) = pod["containers"]
        assert settings["securityContext"]["readOnlyRootFilesystem"]
        mounts = mounted(plane, pod, tmp_path)
        served = Served([], program=container(image, settings["args"], mounts, environment(plane)))
        try:
            served.ready()
            status = Path(f"/proc/{served.process.pid}/status").read_text()
            assert "Uid:\t65532\t65532\t65532\t65532\n" in status
            assert "CapEff:\t0000000000000000\n" in status
            the_demo_runs_unchanged(plane)
            assert served.stop() == 0
        finally:
            if served.process.poll() is None:
                served.process.kill()
            served.wait()
        assert helm(plane, "uninstall", RELEASE).returncode == 0


def environment(plane: ControlPlane) -> dict[str, str]:
    """How a pod finds the API server."""
    server = urlsplit(json.loads(plane.kubeconfig.read_text())["clusters"][0]["cluster"]["server"])
    return {"KUBERNETES_SERVICE_HOST": str(server.hostname), "KUBERNETES_SERVICE_PORT": str(server.port)}


def mounted(plane: ControlPlane, pod: dict[str, object], tmp_path: Path) -> dict[str, Path]:
    """The ConfigMap and the service account of the pod, as kubelet mounts them."""
    account, config = tmp_path / "account", tmp_path / "config"
    account.mkdir()
    config.mkdir()
    name = str(pod["serviceAccountName"])
    token = plane.kubectl("create", "token", name, "-n", NAMESPACE, check=True).stdout.strip()
    root = get(plane, "configmap", "kube-root-ca.crt", "-n", NAMESPACE)["data"]["ca.crt"]
    for file, text in {"token": token, "ca.crt": root, "namespace": NAMESPACE}.items():
        (account / file).write_text(text)
    for file, text in get(plane, "configmap", f"{RELEASE}-config", "-n", NAMESPACE)["data"].items():
        (config / file).write_text(text)
    for each in (tmp_path, *tmp_path.rglob("*")):
        each.chmod(0o755)
    return {SERVICE_ACCOUNT: account, "/etc/seiretsu": config}
