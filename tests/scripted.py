"""A server that answers by a script, to see what a client makes of it."""

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

LIMITS = {"k": 1000, "queries": 3, "body_bytes": 4000}


class Script:
    """A server that gives prepared answers first, then plain ones, and remembers the requests."""

    def __init__(self, *prepared, limits=LIMITS, products=5):
        self.prepared = list(prepared)
        self.model = {"model_version": "1", "products": products, "limits": limits}
        self.requests = []
        self.connections = 0
        self.lock = threading.Lock()

    def answer(self, path, headers, body):
        with self.lock:
            self.requests.append((path, headers, body))
            if self.prepared:
                return self.prepared.pop(0)
        if path == "/v1/model":
            return 200, {}, self.model
        results = [
            {"query": query, "products": [{"id": query, "score": 0.5, "title": query.upper()}]}
            for query in body["queries"]
        ]
        return 200, {}, {"model_version": "1", "matcher": "xr_linear", "results": results}

    @property
    def bodies(self):
        return [body for path, _, body in self.requests if path == "/v1/match"]

    @contextmanager
    def run(self):
        script = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self):
                super().setup()
                script.connections += 1

            def do_GET(self):
                sent = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                body = json.loads(sent) if sent else None
                status, headers, content = script.answer(self.path, self.headers, body)
                data = content if isinstance(content, bytes) else json.dumps(content).encode()
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_POST = do_GET  # noqa: N815

            def log_message(self, *_):
                pass

        class Server(ThreadingHTTPServer):
            def handle_error(self, *_):
                pass  # a client that did not wait

        with Server(("127.0.0.1", 0), Handler) as server:
            thread = threading.Thread(target=server.serve_forever, args=(0.01,))
            thread.start()
            yield f"http://127.0.0.1:{server.server_port}"
            server.shutdown()
            thread.join()


def failure(status, code, message, headers=None, **fields):
    error = {"code": code, "message": message, **fields}
    return status, headers or {}, {"error": error, "request_id": "7"}
