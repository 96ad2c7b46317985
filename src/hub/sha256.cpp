#include "hub/sha256.h"

#include <openssl/evp.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "base/ensure.h"
#include "base/hex.h"

namespace smelt {
namespace {

constexpr size_t kBlock = 1 << 20;

class Digest {
 public:
  Digest() : context_(EVP_MD_CTX_new(), EVP_MD_CTX_free) {
    ENSURE(context_ && EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1, "no SHA-256 in this OpenSSL");
  }
  void add(const void* bytes, size_t size) { EVP_DigestUpdate(context_.get(), bytes, size); }
  std::string hex() {
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned size = 0;
    EVP_DigestFinal_ex(context_.get(), digest, &size);
    return smelt::hex(std::as_bytes(std::span(digest, size)));
  }

 private:
  std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context_;
};

}  // namespace

Result<std::string> sha256_of_file(int fd, const std::function<void(uint64_t)>& progress,
                                   const std::atomic<bool>* cancel) {
  Digest digest;
  std::vector<char> block(kBlock);
  for (uint64_t at = 0;;) {
    if (cancel && *cancel) return Error{"[hub] interrupted"};
    const ssize_t got = ::pread(fd, block.data(), block.size(), static_cast<off_t>(at));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Error{std::string("[hub] the download cannot be read again: ") + std::strerror(errno)};
    if (got == 0) return digest.hex();
    digest.add(block.data(), static_cast<size_t>(got));
    at += static_cast<uint64_t>(got);
    if (progress) progress(static_cast<uint64_t>(got));
  }
}

std::string sha256_of(std::string_view bytes) {
  Digest digest;
  digest.add(bytes.data(), bytes.size());
  return digest.hex();
}

}  // namespace smelt
