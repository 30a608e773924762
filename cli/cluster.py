"""`seiretsu cluster`: real local control planes, started and stopped by name."""

from __future__ import annotations

import os
import shlex
import sysconfig
from pathlib import Path
from typing import Annotated

import typer

from api.quantity import exact
from devcluster import build, clusters, containers, tools
from devcluster.controlplane import ControlPlane
from devcluster.nodes import NodeGroup

app = typer.Typer()


def _quantity(text: str) -> str:
    try:
        exact(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is no quantity: write 16, 500m or 64Gi") from None
    return text


NameOption = Annotated[str, typer.Option("--name", "-n", help="Which cluster.")]


@app.command()
def up(
    name: NameOption = "seiretsu",
    nodes: Annotated[int, typer.Option(min=0, max=10_000, help="How many simulated nodes.")] = 4,
    node_cpu: Annotated[str, typer.Option(callback=_quantity, help="Cpu of each node.")] = "16",
    node_memory: Annotated[str, typer.Option(callback=_quantity, help="Memory of each node.")] = "64Gi",
    node_label: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="A label of each node; may be repeated.")
    ] = None,
) -> None:
    """Start a control plane with simulated nodes; the first time, build its programs."""
    labels = dict(_label(text) for text in node_label or ())
    group = (NodeGroup(nodes, node_cpu, node_memory, labels=labels),) if nodes else ()
    clusters.up(name, group)
    typer.echo(f"Cluster {name} is up: {nodes} nodes of {node_cpu} cpu and {node_memory} memory.")
    typer.echo(use_line(name))


@app.command()
def down(name: NameOption = "seiretsu") -> None:
    """Stop a control plane, or clear up what a crash left of it, and remove its data."""
    clusters.down(name)
    typer.echo(f"Cluster {name} is down.")


@app.command("list")
def list_() -> None:
    """List the clusters there are."""
    found = clusters.every()
    if not found:
        typer.echo("No clusters. Start one with seiretsu cluster up.")
        return
    width = max(len("NAME"), *(len(cluster.name) for cluster in found))
    typer.echo(f"{'NAME':<{width}}  STATE    KUBECONFIG")
    for cluster in found:
        state = "running" if cluster.running else "broken"
        typer.echo(f"{cluster.name:<{width}}  {state:<7}  {cluster.kubeconfig}")


@app.command()
def kubeconfig(name: NameOption = "seiretsu") -> None:
    """Print the path of a cluster's kubeconfig."""
    typer.echo(clusters.get(name).kubeconfig)


@app.command()
def env(name: NameOption = "seiretsu") -> None:
    """Print one line for the shell's eval: seiretsu, kubectl and helm (if they were built) on PATH, and the cluster's
    kubeconfig.
    """
    cluster = clusters.get(name)
    built = (tools.find(each) for each in ("kubectl", "helm"))
    folders = dict.fromkeys([program().parent, *(each.parent for each in built if each)])
    path = "".join(f"{shlex.quote(str(folder))}:" for folder in folders)
    cache = shlex.quote(
        str(cluster.directory / "cache")
    )  # kubectl's own cache uses the address as key, and addresses are reused
    typer.echo(f'export PATH={path}"$PATH" KUBECONFIG={shlex.quote(str(cluster.kubeconfig))} KUBECACHEDIR={cache}')


@app.command()
def run(
    deployment: Annotated[str, typer.Argument(help="Its container is started, with seiretsu for its image.")],
    name: NameOption = "seiretsu",
    namespace: Annotated[str, typer.Option(help="The namespace of the Deployment.")] = "default",
) -> None:
    """Run a Deployment's container on this machine, with its arguments, files and service account, until Ctrl-C."""
    cluster = clusters.get(name)
    plane = ControlPlane.attach(cluster.directory, name)
    container = containers.of_deployment(plane, deployment, namespace, cluster.directory / "containers" / deployment)
    words = [*(container.command or [str(program())]), *container.arguments]
    os.execvpe(words[0], words, os.environ | container.environment)


@app.command("tools")
def tools_(
    names: Annotated[list[str] | None, typer.Argument(help="Build these where missing, e.g. helm.")] = None,
) -> None:
    """Print the path of each program; those named are built first."""
    known = [tool.name for module in tools.ALL for tool in module.tools]
    for name in names or ():
        if name not in known:
            raise typer.BadParameter(f"{name} is none of {', '.join(known)}")
    paths = build.ensure(*(names or ()))
    for name in names or known:
        typer.echo(f"{name:<24} {paths.get(name) or tools.find(name) or 'not built yet'}")
    if not names:
        typer.echo(f"{'(cache)':<24} {tools.cache_directory(os.environ)}")


def program() -> Path:
    """The path of `seiretsu` itself, to be typed where it is not on PATH."""
    return Path(sysconfig.get_path("scripts")) / "seiretsu"


def use_line(name: str) -> str:
    """Returns the line that makes a shell use a cluster; it can be pasted as it is."""
    return f'eval "$({shlex.quote(str(program()))} cluster env --name {name})"'


def _label(text: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not separator or not key:
        raise typer.BadParameter(f"{text!r} is no label: write KEY=VALUE", param_hint="--node-label")
    return key, value
