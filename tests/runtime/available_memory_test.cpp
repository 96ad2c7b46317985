// What a process may have, in a made-up /proc and /sys.
#include "runtime/available_memory.h"

#include <doctest/doctest.h>

#include <fstream>

#include "support/temp_folder.h"

using namespace smelt;

namespace {

constexpr uint64_t kMega = 1 << 20;

// A root folder with a machine of 1000 MB and the files given.
class FakeRoot {
 public:
  FakeRoot() { add("proc/meminfo", "MemTotal: 2048000 kB\nMemAvailable:    1024000 kB\n"); }
  FakeRoot& add(const std::string& path, const std::string& text) {
    const std::string whole = folder_ / path;
    std::filesystem::create_directories(std::filesystem::path(whole).parent_path());
    std::ofstream(whole) << text;
    return *this;
  }
  FakeRoot& megabytes(const std::string& path, uint64_t value) {
    return add(path, std::to_string(value * kMega) + "\n");
  }
  uint64_t available() const { return available_memory(folder_.path()) / kMega; }

 private:
  test::TempFolder folder_;
};

}  // namespace

TEST_CASE("this machine says how much memory it has left") {
  CHECK(available_memory() > kMega);
  CHECK(available_memory() < UINT64_MAX);
}

TEST_CASE("without a control group it is what the machine has") {
  CHECK(FakeRoot().available() == 1000);
  CHECK(FakeRoot().add("proc/self/cgroup", "0::/\n").available() == 1000);
}

TEST_CASE("a system that does not say is taken to have enough") {
  CHECK(FakeRoot().add("proc/meminfo", "").available() == UINT64_MAX / kMega);
}

TEST_CASE("a limit of address space leaves what is not mapped yet") {
  FakeRoot root;
  root.add("proc/self/status", "Name:\tsmelt\nVmPeak:\t  200000 kB\nVmSize:\t  102400 kB\n");
  const auto limit = [](const std::string& soft) {
    return "Limit                     Soft Limit           Hard Limit           Units\n"
           "Max address space         " +
           soft + "            unlimited            bytes\n";
  };
  CHECK(root.add("proc/self/limits", limit("unlimited")).available() == 1000);
  CHECK(root.add("proc/self/limits", limit(std::to_string(400 * kMega))).available() == 300);
  CHECK(root.add("proc/self/limits", limit(std::to_string(50 * kMega))).available() == 0);
}

TEST_CASE("a group leaves its limit less what is used, page cache not counted") {
  FakeRoot root;
  root.add("proc/self/cgroup", "0::/a/b\n");
  const std::string group = "sys/fs/cgroup/a/b/";
  root.megabytes(group + "memory.max", 300).megabytes(group + "memory.current", 250);
  CHECK(root.available() == 50);
  root.add(group + "memory.stat", "anon 104857600\nactive_file 52428800\ninactive_file 52428800\n");
  CHECK(root.available() == 150);
  SUBCASE("a group around it may leave less") {
    root.megabytes("sys/fs/cgroup/a/memory.max", 100).megabytes("sys/fs/cgroup/a/memory.current", 90);
    CHECK(root.available() == 10);
  }
  SUBCASE("a group without a limit leaves everything") {
    CHECK(root.add(group + "memory.max", "max\n").available() == 1000);
  }
  SUBCASE("one that is over its limit leaves nothing") {
    CHECK(root.megabytes(group + "memory.max", 100).available() == 0);
  }
}

TEST_CASE("a container sees its own group at the mount") {
  FakeRoot root;
  root.add("proc/self/cgroup", "0::/path/of/the/host\n");
  root.megabytes("sys/fs/cgroup/memory.max", 64).megabytes("sys/fs/cgroup/memory.current", 4);
  CHECK(root.available() == 60);
}

TEST_CASE("groups of version 1 count, too") {
  FakeRoot root;
  root.add("proc/self/cgroup", "5:cpu,memory:/job\n4:devices:/x\n0::/\n");
  const std::string group = "sys/fs/cgroup/memory/job/";
  root.megabytes(group + "memory.limit_in_bytes", 200)
      .megabytes(group + "memory.usage_in_bytes", 150)
      .add(group + "memory.stat", "cache 1\ntotal_active_file 0\ntotal_inactive_file 31457280\n");
  CHECK(root.available() == 80);
}
