import pytest

from api.objects import Key, Resource, key_of

JOBS = Resource("batch", "v1", "jobs", "Job")
PODS = Resource("", "v1", "pods", "Pod")
FLAVORS = Resource("kueue.x-k8s.io", "v1beta2", "resourceflavors", "ResourceFlavor", namespaced=False)


def test_paths_are_the_api_servers() -> None:
    assert JOBS.path() == "/apis/batch/v1/jobs"
    assert JOBS.path("ns") == "/apis/batch/v1/namespaces/ns/jobs"
    assert JOBS.path("ns", "a", "status") == "/apis/batch/v1/namespaces/ns/jobs/a/status"
    assert PODS.path("ns", "a") == "/api/v1/namespaces/ns/pods/a"
    assert FLAVORS.path(name="x") == "/apis/kueue.x-k8s.io/v1beta2/resourceflavors/x"
    assert (PODS.api_version, JOBS.api_version) == ("v1", "batch/v1")


def test_a_name_cannot_escape_its_place_in_the_path() -> None:
    assert JOBS.path("ns", "a/../b") == "/apis/batch/v1/namespaces/ns/jobs/a%2F..%2Fb"


def test_a_path_that_names_the_wrong_thing_is_refused() -> None:
    with pytest.raises(ValueError, match="cluster-scoped"):
        FLAVORS.path("ns", "x")
    with pytest.raises(ValueError, match="say in which namespace"):
        JOBS.path(name="x")
    with pytest.raises(ValueError, match="say which"):
        JOBS.path("ns", subresource="status")


def test_a_key_prints_as_people_write_it() -> None:
    assert str(Key("ns", "a")) == "ns/a"
    assert str(key_of({"metadata": {"name": "a"}})) == "a"
