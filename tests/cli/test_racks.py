"""Nodes of a simulation in a short form."""

from __future__ import annotations

import pytest

from api.objects import Raw
from cli.manifests import Document, ScenarioError
from cli.racks import nodes, without

BLOCK, RACK, HOSTNAME = "example.com/block", "example.com/rack", "kubernetes.io/hostname"


def objects(*levels: str) -> list[Document]:
    topology: Raw = {"kind": "Topology", "metadata": {"name": "t"}}
    topology["spec"] = {"levels": [{"nodeLabel": level} for level in levels]}
    flavor: Raw = {"kind": "ResourceFlavor", "metadata": {"name": "gpu"}}
    flavor["spec"] = {"nodeLabels": {"pool": "gpu"}, "topologyName": "t"}
    plain: Raw = {"kind": "ResourceFlavor", "metadata": {"name": "plain"}}
    return [Document(raw, "file") for raw in (topology, flavor, plain)]


def test_a_number_for_each_level_makes_nodes_with_the_labels_of_the_flavor_and_of_the_levels() -> None:
    found = [each.raw for each in nodes(["gpu=2x3x4,cpu=96,nvidia.com/gpu=8"], objects(BLOCK, RACK, HOSTNAME))]
    assert len(found) == 24
    last = found[-1]
    assert last["metadata"]["labels"] == {
        "pool": "gpu",
        BLOCK: "block-2",
        RACK: "rack-2-3",
        HOSTNAME: "node-2-3-4",
    }
    assert last["status"]["allocatable"] == {"cpu": "96", "nvidia.com/gpu": "8", "pods": "110"}


def test_where_the_lowest_level_is_a_rack_a_further_number_is_its_nodes() -> None:
    found = [each.raw for each in nodes(["gpu=2x3"], objects(RACK))]
    assert [each["metadata"]["labels"][RACK] for each in found] == ["rack-1"] * 3 + ["rack-2"] * 3


def test_nodes_of_several_forms_have_names_and_racks_of_their_own() -> None:
    other = Document({**objects()[1].raw, "metadata": {"name": "cpu"}}, "file")
    made = nodes(["gpu=1x1", "cpu=1x1", "gpu=1x1,cpu=96"], [*objects(RACK, HOSTNAME), other])
    found = [(each.raw["metadata"]["name"], each.raw["metadata"]["labels"][RACK]) for each in made]
    assert found == [
        ("node-gpu-1-1", "rack-gpu-1"),
        ("node-cpu-1-1", "rack-cpu-1"),
        ("node-gpu.2-1-1", "rack-gpu.2-1"),
    ]


def test_a_rack_that_is_down_has_no_nodes() -> None:
    world = [*objects(RACK, HOSTNAME), *nodes(["gpu=2x3"], objects(RACK, HOSTNAME))]
    left = without([f"{RACK}=rack-1"], world)
    assert {each.raw["metadata"]["labels"][RACK] for each in left if each.raw["kind"] == "Node"} == {"rack-2"}
    with pytest.raises(ScenarioError, match="no node has this label"):
        without([f"{RACK}=rack-7"], world)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("gpu=2", "a number for each level is expected: BLOCK x RACK".replace(" x ", "x")),
        ("gpu=axb", "a number for each level is expected"),
        ("gpu=0x2", "a number for each level is expected"),
        ("gpu=1000x1000", "these are 1000000 nodes, 100000 at most are simulated"),
        ("gpu=2x2,cpu=much", "'cpu=much' is no amount"),
        ("tpu=2x2", "there is no ResourceFlavor 'tpu'"),
        ("plain=2x2", "the flavor plain has no topology"),
    ],
)
def test_a_form_that_cannot_be_read_gets_a_sentence(text: str, sentence: str) -> None:
    with pytest.raises(ScenarioError) as error:
        nodes([text], objects(BLOCK, RACK))
    assert sentence in str(error.value)
