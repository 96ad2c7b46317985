#include "runtime/kernel_cache.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <vector>

#include "runtime/kernels.h"

using namespace smelt;
using namespace smelt::test;

namespace {

const KernelIdentity kIdentity{.text = "define void @k() { ret void }",
                               .entry = "k",
                               .triple = "x86_64-linux",
                               .cpu = "znver4",
                               .features = "+avx512f",
                               .compiler = "llvm 19",
                               .pipeline = "sroa O2",
                               .version = "1"};

std::string file_of(const TemporaryFolder& folder, const KernelKey& key) {
  return folder.path() + "/" + key.hex() + ".kernel";
}

void set_age(const std::string& path, int seconds) {
  timespec times[2];
  ::clock_gettime(CLOCK_REALTIME, &times[0]);
  times[0].tv_sec -= seconds;
  times[1] = times[0];
  REQUIRE(::utimensat(AT_FDCWD, path.c_str(), times, 0) == 0);
}

int64_t age_of(const std::string& path) {
  struct stat info;
  REQUIRE(::stat(path.c_str(), &info) == 0);
  return ::time(nullptr) - info.st_mtime;
}

}  // namespace

TEST_CASE("what is stored is loaded, what is not is a miss") {
  TemporaryFolder folder;
  KernelCache cache(folder.path());
  REQUIRE(cache.usable());
  KernelKey key = make_key(kIdentity);
  CHECK_FALSE(cache.load(key).has_value());
  cache.store(key, "machine code");
  CHECK(cache.load(key) == "machine code");
  CHECK(KernelCache(folder.path()).load(key) == "machine code");  // another process would find it
  cache.store(key, "");
  CHECK(cache.load(key) == "");
  CHECK(folder.names() == std::vector<std::string>{key.hex() + ".kernel"});
}

TEST_CASE("every part of the identity makes another key") {
  TemporaryFolder folder;
  KernelCache cache(folder.path());
  cache.store(make_key(kIdentity), "machine code");
  std::vector<std::string> keys = {make_key(kIdentity).hex()};
  for (auto field :
       {&KernelIdentity::text, &KernelIdentity::entry, &KernelIdentity::triple, &KernelIdentity::cpu,
        &KernelIdentity::features, &KernelIdentity::compiler, &KernelIdentity::pipeline, &KernelIdentity::version}) {
    KernelIdentity changed = kIdentity;
    std::string value = std::string(kIdentity.*field) + "x";
    changed.*field = value;
    KernelKey key = make_key(changed);
    CHECK_FALSE(cache.load(key).has_value());
    for (const std::string& other : keys) CHECK(key.hex() != other);
    keys.push_back(key.hex());
  }
  KernelIdentity moved = kIdentity;  // the same letters, cut differently
  moved.cpu = "znver";
  moved.features = "4+avx512f";
  CHECK(make_key(moved).hex() != keys[0]);
}

TEST_CASE("an entry is believed only if every bit of it is right") {
  KernelKey key = make_key(kIdentity);
  const std::string good = format_entry(key, "machine code");
  REQUIRE(parse_entry(good, key) == "machine code");
  for (size_t at = 0; at < good.size(); ++at)
    for (int bit = 0; bit < 8; ++bit) {
      std::string bad = good;
      bad[at] ^= static_cast<char>(1 << bit);
      CHECK_FALSE(parse_entry(bad, key).has_value());
    }
  for (size_t size = 0; size < good.size(); ++size) CHECK_FALSE(parse_entry(good.substr(0, size), key).has_value());
  CHECK_FALSE(parse_entry(good + "x", key).has_value());
}

TEST_CASE("an intact entry of another key under this name is not loaded") {
  TemporaryFolder folder;
  KernelCache cache(folder.path());
  KernelKey key = make_key(kIdentity);
  KernelIdentity other = kIdentity;
  other.features = "+avx2";
  write_contents(file_of(folder, key), format_entry(make_key(other), "other code"));
  CHECK_FALSE(cache.load(key).has_value());

  // The same hash with another identity: what a collision would look like.
  KernelKey collision = make_key(other);
  collision.low = key.low;
  collision.high = key.high;
  write_contents(file_of(folder, key), format_entry(collision, "other code"));
  CHECK_FALSE(cache.load(key).has_value());
}

TEST_CASE("a corrupt, cut or strange entry on disk is a miss and is replaced by the next store") {
  TemporaryFolder folder;
  KernelCache cache(folder.path());
  KernelKey key = make_key(kIdentity);
  const std::string path = file_of(folder, key), good = format_entry(key, "machine code");
  for (std::string bad : {good.substr(0, 20), good.substr(0, good.size() - 1), std::string(), "x" + good}) {
    write_contents(path, bad);
    CHECK_FALSE(cache.load(key).has_value());
    cache.store(key, "machine code");
    CHECK(cache.load(key) == "machine code");
  }
  REQUIRE(::chmod(path.c_str(), 0666) == 0);  // anybody may have written it
  CHECK_FALSE(cache.load(key).has_value());
  cache.store(key, "machine code");
  CHECK(cache.load(key) == "machine code");

  ::unlink(path.c_str());
  const std::string elsewhere = folder.path() + "/elsewhere";
  write_contents(elsewhere, good);
  REQUIRE(::symlink(elsewhere.c_str(), path.c_str()) == 0);
  CHECK_FALSE(cache.load(key).has_value());
  ::unlink(path.c_str());
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  CHECK_FALSE(cache.load(key).has_value());  // and does not wait for a writer
}

TEST_CASE("a folder that is not ours alone is not used") {
  TemporaryFolder folder;
  REQUIRE(::chmod(folder.path().c_str(), 0777) == 0);
  KernelCache cache(folder.path());
  CHECK_FALSE(cache.usable());
  cache.store(make_key(kIdentity), "machine code");
  CHECK(folder.names().empty());
  CHECK_FALSE(cache.load(make_key(kIdentity)).has_value());
  REQUIRE(::chmod(folder.path().c_str(), 0700) == 0);

  write_contents(folder.path() + "/file", "");
  CHECK_FALSE(KernelCache(folder.path() + "/file").usable());
  CHECK_FALSE(KernelCache(folder.path() + "/file/below").usable());
  CHECK_FALSE(KernelCache("").usable());
}

TEST_CASE("a folder or entry of another user is not used") {
  if (::geteuid() != 0) return;  // only root can give files away
  TemporaryFolder folder;
  KernelCache cache(folder.path());
  KernelKey key = make_key(kIdentity);
  cache.store(key, "machine code");
  REQUIRE(::chown(file_of(folder, key).c_str(), 12345, 12345) == 0);
  CHECK_FALSE(cache.load(key).has_value());
  REQUIRE(::chown(folder.path().c_str(), 12345, 12345) == 0);
  CHECK_FALSE(KernelCache(folder.path()).usable());
  REQUIRE(::chown(folder.path().c_str(), 0, 0) == 0);
}

TEST_CASE("past the byte limit the entries used longest ago go first") {
  TemporaryFolder folder;
  std::string object(1000, 'x');
  std::vector<KernelKey> keys;
  for (int i = 0; i < 10; ++i) {
    std::string text = "kernel " + std::to_string(i);
    KernelIdentity identity = kIdentity;
    identity.text = text;
    keys.push_back(make_key(identity));
  }
  KernelCache cache(folder.path(), 8 * format_entry(keys[0], object).size());
  for (int i = 0; i < 8; ++i) {
    cache.store(keys[i], object);
    set_age(file_of(folder, keys[i]), 100000 - i);
  }
  CHECK(cache.load(keys[0]) == object);  // used again, so no longer the oldest
  CHECK(age_of(file_of(folder, keys[0])) < 100);
  cache.store(keys[8], object);
  CHECK(cache.load(keys[0]).has_value());
  CHECK_FALSE(cache.load(keys[1]).has_value());
  CHECK_FALSE(cache.load(keys[2]).has_value());
  CHECK(cache.load(keys[3]).has_value());
  CHECK(cache.load(keys[8]).has_value());
  CHECK(folder.names().size() == 7);

  cache.store(keys[9], std::string(20000, 'x'));  // larger than the whole cache
  CHECK_FALSE(cache.load(keys[9]).has_value());
  CHECK(folder.names().size() == 7);
}

TEST_CASE("shrinking removes what died with its writer, and nothing that is not the cache's") {
  TemporaryFolder folder;
  KernelKey key = make_key(kIdentity);
  const std::string old = file_of(folder, key) + ".tmp-1-1", young = file_of(folder, key) + ".tmp-1-2";
  write_contents(old, "half");
  set_age(old, 7200);
  write_contents(young, "half");
  write_contents(folder.path() + "/notes.txt", "mine");
  set_age(folder.path() + "/notes.txt", 7200);
  KernelCache cache(folder.path());
  cache.shrink(0);
  CHECK(::access(old.c_str(), F_OK) != 0);
  CHECK(::access(young.c_str(), F_OK) == 0);
  CHECK(::access((folder.path() + "/notes.txt").c_str(), F_OK) == 0);
}

TEST_CASE("processes that store, load and shrink in one folder see whole entries or none") {
  TemporaryFolder folder;
  std::vector<KernelKey> keys;
  for (int i = 0; i < 5; ++i) {
    std::string text = "kernel " + std::to_string(i);
    KernelIdentity identity = kIdentity;
    identity.text = text;
    keys.push_back(make_key(identity));
  }
  auto work = [&](int seed) {
    KernelCache cache(folder.path(), 15000);
    int wrong = 0;
    for (int i = 0; i < 60; ++i) {
      int which = (i * 7 + seed) % 5;
      std::string object(3000 + which, static_cast<char>('a' + which));
      if (i % 3 == seed % 3) cache.store(keys[which], object);
      auto found = cache.load(keys[which]);
      if (found && *found != object) ++wrong;
    }
    return wrong;
  };
  std::vector<pid_t> children;
  for (int seed = 0; seed < 3; ++seed) children.push_back(start_process([&] { return work(seed); }));
  for (pid_t child : children) CHECK(end_of(child) == 0);
  for (const std::string& name : folder.names()) CHECK(name.ends_with(".kernel"));
}
