"""`/convert` as the API server calls it."""

import orjson
import pytest

from webhook.conversion import answer, convert


def review(count: int) -> bytes:
    one = {"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "LocalQueue", "metadata": {"name": "x"}, "spec": {}}
    request = {"uid": "u", "desiredAPIVersion": "kueue.x-k8s.io/v1beta2", "objects": [one] * count}
    return orjson.dumps({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": request})


@pytest.mark.parametrize("count", [0, 1, 5000])
async def test_reviews_of_any_length_are_answered(count: int) -> None:
    status, content = await convert(review(count))
    assert status == 200
    converted = orjson.loads(content)["response"]["convertedObjects"]
    assert [one["apiVersion"] for one in converted] == ["kueue.x-k8s.io/v1beta2"] * count


@pytest.mark.parametrize("body", [b"", b"{", b"null", b"[]", b"\xff", b"[" * 100_000])
def test_what_is_no_review_is_a_bad_request(body: bytes) -> None:
    status, text = answer(body)
    assert status == 400
    assert text.endswith(b"\n")
