#!/usr/bin/env python3
"""A model hub for tests, on 127.0.0.1 and any free port, which it prints. It serves the files of a folder as the
repository user/repo, and misbehaves as told: POST /tell with JSON such as {"cut_after": 100000, "times": 3}.

  cut_after      bytes of a body after which the connection is closed, for the first `times` requests
  status         answer these requests with this status
  no_ranges      whole files, always
  wrong_range    a Content-Range that is one byte off
  flip           the first byte of a body is another one
  shorter        Content-Range tells of a file one byte shorter
  longer         one byte more than asked for
  gzip           claims a coding
  slow           seconds before each 64 KiB
  etag           the ETag of files; changes while a download runs
  commit         the name of what the repository has now
  redirect       answer files with a redirect to this server under another name
  redirect_to    ... or to this URL
GET /log gives a JSON list of requests: path, Authorization, Range, bytes sent.
"""
import hashlib
import http.server
import json
import os
import sys
import threading
import time

FOLDER = sys.argv[1]
COMMIT = "0123456789abcdef0123456789abcdef01234567"
LOCK = threading.Lock()
TOLD = {}
LOG = []


def told(key):
    """What the server was told, while its times last."""
    with LOCK:
        if key not in TOLD:
            return None
        if "times" in TOLD:
            if TOLD["times"] <= 0:
                return None
            TOLD["times"] -= 1
        return TOLD[key]


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def note(self, sent=0):
        with LOCK:
            LOG.append({"path": self.path, "authorization": self.headers.get("Authorization", ""),
                        "range": self.headers.get("Range", ""), "host": self.headers.get("Host", ""), "sent": sent})

    def text(self, body, status=200):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with LOCK:
            TOLD.clear()
            TOLD.update(body or {})
            LOG.clear()
        self.text(b"")

    def do_GET(self):
        if self.path == "/log":
            with LOCK:
                body = json.dumps(LOG).encode()
            return self.text(body)
        if self.path.startswith("/api/models/user/repo/revision/main"):
            self.note()
            return self.text(self.listing())
        for prefix in ("/user/repo/resolve/" + (told("commit") or COMMIT) + "/", "/content/"):
            if self.path.startswith(prefix):
                return self.file(self.path[len(prefix):], prefix == "/content/")
        self.note()
        return self.text(b"no such thing", 404)

    def listing(self):
        files = []
        for folder, _, names in os.walk(FOLDER):
            for name in sorted(names):
                path = os.path.join(folder, name)
                content = open(path, "rb").read()
                files.append({"rfilename": os.path.relpath(path, FOLDER), "size": len(content), "blobId": "1" * 40,
                              "lfs": {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content)}})
        return json.dumps({"sha": told("commit") or COMMIT, "siblings": files}).encode()

    def file(self, name, is_content):
        target = None if is_content else told("redirect_to")
        if not is_content and told("redirect"):
            target = "http://localhost:%d/content/%s" % (self.server.server_address[1], name)
        if target:
            self.note()
            self.send_response(302)
            self.send_header("Location", target)
            self.send_header("Content-Length", "0")
            return self.end_headers()
        try:
            content = open(os.path.join(FOLDER, name), "rb").read()
        except OSError:
            self.note()
            return self.text(b"gone", 404)
        self.content(content)

    def content(self, content):
        status = told("status")
        if status:
            self.note()
            return self.text(b"told to", status)
        begin, end, whole = 0, len(content), True
        asked = self.headers.get("Range", "")
        if asked.startswith("bytes=") and not told("no_ranges"):
            first, last = asked[6:].split("-")
            begin, end, whole = int(first), min(int(last) + 1, len(content)), False
        body = content[begin:end]
        if end - begin > 1:  # not the question for the size
            if told("flip"):
                body = bytes([body[0] ^ 1]) + body[1:]
            if told("longer"):
                body += b"!"
        self.send_response(200 if whole else 206)
        if not whole:
            at = begin + (1 if end - begin > 1 and told("wrong_range") else 0)
            size = len(content) - (1 if end - begin > 1 and told("shorter") else 0)
            self.send_header("Content-Range", "bytes %d-%d/%d" % (at, end - 1, size))
        if told("gzip"):
            self.send_header("Content-Encoding", "gzip")
        etag = told("etag")
        if etag:
            self.send_header("ETag", '"%s"' % (etag if end - begin <= 1 else etag + "2"))
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        cut = told("cut_after") if len(body) > 1 else None
        sent = 0
        try:
            for at in range(0, len(body), 65536):
                pause = TOLD.get("slow")
                if pause:
                    time.sleep(pause)
                piece = body[at:at + 65536]
                if cut is not None and sent + len(piece) > cut:
                    self.wfile.write(piece[:max(0, cut - sent)])
                    sent = cut
                    self.close_connection = True
                    self.wfile.flush()
                    break
                self.wfile.write(piece)
                sent += len(piece)
        except OSError:
            self.close_connection = True
        self.note(sent)


class Server(http.server.ThreadingHTTPServer):
    def handle_error(self, *_):
        pass  # clients hang up: that is what is tested


if __name__ == "__main__":
    server = Server(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    print(server.server_address[1], flush=True)
    server.serve_forever()
