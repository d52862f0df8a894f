"""Stands between a client and `tapegrad serve`, and makes a model of random weights call what the client's test needs.

usage: forced_calls.py URL CALL...      a CALL is JSON: {"name", "namespace" if it has one, "arguments"}, or null

Each request for a response or a chat that offers tools takes the next CALL, and must make it, with these arguments alone: its
tool_choice and the function's schema are replaced. With null, and after the last one, it must call nothing. Prints its own URL.
"""

import json
import sys
import threading
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

url = sys.argv[1]
calls = [json.loads(text) for text in sys.argv[2:]]
lock = threading.Lock()


def force(body, call):
    chat = "messages" in body
    for tool in body["tools"]:
        of_group = tool["type"] == "namespace" and tool["name"] == call.get("namespace")
        for function in tool["tools"] if of_group else [tool] if "namespace" not in call else []:
            function = function.get("function", function)
            if function.get("name") == call["name"]:
                properties = {name: {"const": value} for name, value in call["arguments"].items()}
                function["parameters"] = {"type": "object", "properties": properties, "required": list(properties),
                                          "additionalProperties": False}
    name = {"name": "__".join(call[key] for key in ("namespace", "name") if key in call)}
    body["tool_choice"] = {"type": "function", "function": name} if chat else {"type": "function", **name}
    body["parallel_tool_calls"] = False


class Between(BaseHTTPRequestHandler):
    def do_GET(self):
        self.forward(None)

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if body.get("tools"):
            with lock:
                call = calls.pop(0) if calls else None
            if call:
                force(body, call)
            else:
                body["tool_choice"] = "none"
        self.forward(json.dumps(body).encode())

    def forward(self, body):
        headers = {name: self.headers[name] for name in ("Authorization", "Content-Type") if name in self.headers}
        request = urllib.request.Request(url + self.path, body, headers)
        try:
            answer = urllib.request.urlopen(request)
        except urllib.error.HTTPError as error:
            answer = error
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.headers["Content-Type"])
        self.end_headers()
        for line in answer:
            self.wfile.write(line)

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Between)
print(f"http://127.0.0.1:{server.server_port}", flush=True)
server.serve_forever()
