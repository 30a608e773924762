"""`--install` over CRDs of another program."""

import pytest

from api.objects import Raw
from operations.install import moved

SERVICE = {"service": {"name": "kueue-webhook-service", "namespace": "kueue-system", "path": "/convert"}}
OURS = {"url": "https://127.0.0.1:9443/convert", "caBundle": "b3Vycw=="}


def converting(config: Raw | None) -> Raw:
    webhook = {"conversionReviewVersions": ["v1"], "clientConfig": config}
    return {"spec": {} if config is None else {"conversion": {"strategy": "Webhook", "webhook": webhook}}}


NOTHING_TO_DO: dict[str, tuple[Raw, Raw]] = {
    "there is none yet": ({}, converting(OURS)),
    "it does not convert": ({"spec": {"conversion": {"strategy": "None"}}}, converting(OURS)),
    "it is ours": (converting(OURS), converting(OURS)),
    "ours was at another port": (converting({"url": "https://127.0.0.1:1/convert"}), converting(OURS)),
    "we do not convert the kind": (converting(SERVICE), converting(None)),
}


@pytest.mark.parametrize(("found", "wanted"), NOTHING_TO_DO.values(), ids=NOTHING_TO_DO.keys())
def test_server_side_apply_does_it_alone_where(found: Raw, wanted: Raw) -> None:
    assert moved(found, wanted) is None


@pytest.mark.parametrize(("theirs", "ours"), [(SERVICE, OURS), (OURS, SERVICE)])
def test_the_patch_replaces_the_address_of_another_conversion_webhook(theirs: Raw, ours: Raw) -> None:
    patch = moved(converting(theirs), converting(ours))
    assert patch is not None
    (gone,) = {"service", "url"} & set(theirs)
    config = {**ours, gone: None}
    assert patch["spec"]["conversion"]["webhook"] == {"conversionReviewVersions": ["v1"], "clientConfig": config}
