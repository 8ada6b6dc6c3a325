"""Stand-in server of chat completions for language models at a seat."""

import contextlib
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

KEY = "sk-secret-123456"


class StandIn:
    """Server of chat completions that gives `answers` in order, the last one for ever.

    An answer is the text of a message, a function of the request that returns it, an HTTP status, a
    number of seconds of silence (float), or bytes: a body of any form.
    """

    def __init__(self, *answers, usage=10):
        self.answers, self.usage, self.seen, self.keys = list(answers), usage, [], []
        standin = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                standin.seen.append((self.path, body))
                standin.keys.append(self.headers["Authorization"])
                answer = standin.answers[0]
                if len(standin.answers) > 1:
                    standin.answers.pop(0)
                with contextlib.suppress(OSError):  # the client has left
                    self.reply(answer(body) if callable(answer) else answer)

            def reply(self, answer):
                status, body = 200, answer
                if isinstance(answer, float):
                    time.sleep(answer)
                    status, body = 500, b"late"
                elif isinstance(answer, int):
                    status, body = answer, json.dumps({"error": {"message": f"not you, {KEY}"}})
                elif isinstance(answer, str):
                    body = json.dumps(completion(answer, standin.usage))
                body = body if isinstance(body, bytes) else body.encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *error):
        self.server.shutdown()
        self.server.server_close()


def completion(text, usage):
    message = {"role": "assistant", "content": text}
    body = {"id": "1", "object": "chat.completion", "created": 0, "model": "stand-in"}
    body["choices"] = [{"index": 0, "finish_reason": "stop", "message": message}]
    return body | ({"usage": {"total_tokens": usage}} if usage else {})


def first_legal(body):
    text = body["messages"][-1]["content"]
    return "MOVE: " + text.rpartition("Legal moves:\n")[2].splitlines()[0]
