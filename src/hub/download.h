// One file from a server to the disk: in pieces, over several connections, resumed after any cut, checked, and
// published whole or not at all.
//
// Beside `path` lie, until it is done, path.smelt-part with the bytes so far and path.smelt-journal with what is there.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "base/result.h"

namespace smelt {

struct Download {
  std::string url;
  std::string token;   // for the host of `url`
  std::string path;    // the file to make; its folder is made, too
  std::string lock;    // a file that is locked meanwhile, so that one process fetches and others wait
  uint64_t size = 0;   // 0: as the server says
  std::string sha256;  // empty: nobody says, so that the size and the server's ETag must do
  int connections = 4;
  int patience = 6;          // failures one after the other, without a byte between them
  double first_pause = 0.5;  // seconds before the second try; it doubles
  const std::atomic<bool>* cancel = nullptr;
};

struct DownloadEvents {
  std::function<void(uint64_t total, uint64_t there)> begin;  // once the size is known
  std::function<void(uint64_t bytes)> received;               // from any thread
  std::function<void()> verifying;                            // all is there; received() counts what is read again
  std::function<void(const std::string&)> note;               // "waiting for another process ..."
};

// Success: `path` is there, whole. An Error: it is as it was before; what was fetched stays for the next time.
Status fetch(const Download& download, const DownloadEvents& events);

}  // namespace smelt
