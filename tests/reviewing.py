"""A webhook server in a test: answers what the API server asks it with a response that the test makes."""

from __future__ import annotations

import http.server
import json

from api.objects import Raw


class ReviewHandler(http.server.BaseHTTPRequestHandler):
    """Answers AdmissionReviews and ConversionReviews with what ``respond`` returns."""

    def respond(self, request: Raw) -> Raw:
        """What the response has besides the uid; the path says what is asked."""
        raise NotImplementedError

    def do_POST(self) -> None:
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        response = {"uid": review["request"]["uid"], **self.respond(review["request"])}
        body = json.dumps({"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Keep the test's output clean."""
