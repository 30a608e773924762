"""Asks the webhooks as the API server does, and verifies their certificate; exit code 1 if they do not answer so."""

import http.client
import json
import os
import ssl
import sys

FLAVOR = {
    "apiVersion": "kueue.x-k8s.io/v1beta2",
    "kind": "ResourceFlavor",
    "metadata": {"name": "helm-test"},
    "spec": {},
}
KIND = {"group": "kueue.x-k8s.io", "version": "v1beta2", "kind": "ResourceFlavor"}
RESOURCE = {"group": "kueue.x-k8s.io", "version": "v1beta2", "resource": "resourceflavors"}
USER = {"username": "helm-test"}
REVIEW = {
    "apiVersion": "admission.k8s.io/v1",
    "kind": "AdmissionReview",
    "request": {
        **{"uid": "helm-test", "kind": KIND, "resource": RESOURCE, "name": "helm-test", "operation": "CREATE"},
        **{"object": FLAVOR, "oldObject": None, "userInfo": USER, "dryRun": True},
    },
}

trusted = ssl.create_default_context(cafile=os.environ["CA"])
place = os.environ["SERVICE"], int(os.environ["PORT"])
connection = http.client.HTTPSConnection(*place, context=trusted, timeout=10)
headers = {"Content-Type": "application/json"}
connection.request("POST", "/validate-kueue-x-k8s-io-v1beta2-resourceflavor", json.dumps(REVIEW), headers)
answer = connection.getresponse()
text = answer.read().decode()
print(answer.status, text)
if os.environ["CLIENT_CA"]:
    sys.exit(answer.status != 403)
sys.exit(answer.status != 200 or json.loads(text)["response"]["allowed"] is not True)
