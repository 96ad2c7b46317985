// Small kernels written by hand in LLVM IR, and what else the tests of the runtime share.
#pragma once

#include <dirent.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "runtime/source.h"

namespace smelt::test {

// out[i] = a[i] * factor + bias for the worker's share of n = symbols[0] floats; buffers: out, a.
inline Source scale_kernel(const std::string& factor = "3.0", const std::string& entry = "scale") {
  return {"define void @" + entry + R"((ptr %buffers, ptr %symbols, i64 %part, i64 %parts, ptr %scratch, i64 %begins) {
entry:
  %out = load ptr, ptr %buffers
  %a_slot = getelementptr ptr, ptr %buffers, i64 1
  %a = load ptr, ptr %a_slot
  %n = load i64, ptr %symbols
  %n_part = mul i64 %n, %part
  %begin = sdiv i64 %n_part, %parts
  %next = add i64 %part, 1
  %n_next = mul i64 %n, %next
  %end = sdiv i64 %n_next, %parts
  %any = icmp slt i64 %begin, %end
  br i1 %any, label %loop, label %done
loop:
  %i = phi i64 [ %begin, %entry ], [ %i_next, %loop ]
  %from = getelementptr float, ptr %a, i64 %i
  %x = load float, ptr %from
  %scaled = fmul float %x, )" +
              factor + R"(
  %y = fadd float %scaled, 1.0
  %to = getelementptr float, ptr %out, i64 %i
  store float %y, ptr %to
  %i_next = add i64 %i, 1
  %more = icmp slt i64 %i_next, %end
  br i1 %more, label %loop, label %done
done:
  ret void
}
)",
          entry};
}

// Adds 16 floats to 16 others, as one vector, with a table of constants in between; buffers: out,
// a, b.
inline Source vector_kernel() {
  return {R"(define void @vector_add(ptr %buffers, ptr %symbols, i64 %part, i64 %parts, ptr %scratch, i64 %begins) {
  %out = load ptr, ptr %buffers
  %a_slot = getelementptr ptr, ptr %buffers, i64 1
  %a = load ptr, ptr %a_slot
  %b_slot = getelementptr ptr, ptr %buffers, i64 2
  %b = load ptr, ptr %b_slot
  %x = load <16 x float>, ptr %a, align 4
  %y = load <16 x float>, ptr %b, align 4
  %sum = fadd <16 x float> %x, %y
  %odd = fadd <16 x float> %sum, <
    float 0.0, float 1.0, float 2.0, float 3.0, float 4.0, float 5.0, float 6.0, float 7.0,
    float 8.0, float 9.0, float 10.0, float 11.0, float 12.0, float 13.0, float 14.0, float 15.0>
  store <16 x float> %odd, ptr %out, align 4
  ret void
}
)",
          "vector_add"};
}

// Fills symbols[0] bytes with 7: LLVM makes a call of memset of it. buffers: out.
inline Source fill_kernel() {
  return {R"(define void @fill(ptr %buffers, ptr %symbols, i64 %part, i64 %parts, ptr %scratch, i64 %begins) {
  %out = load ptr, ptr %buffers
  %n = load i64, ptr %symbols
  call void @llvm.memset.p0.i64(ptr %out, i8 7, i64 %n, i1 false)
  ret void
}
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
)",
          "fill"};
}

// A child process that runs f and ends with its result as exit status; what is still unprinted
// stays with the parent.
template <class F>
pid_t start_process(F f) {
  std::cout.flush();
  pid_t child = ::fork();
  if (child == 0) ::_exit(f());
  return child;
}

// The exit status, or -1 if the process was killed.
inline int end_of(pid_t child) {
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// A folder that goes with everything in it (one level deep).
class TemporaryFolder {
 public:
  TemporaryFolder() {
    char name[] = "/tmp/smelt-test-XXXXXX";
    path_ = ::mkdtemp(name);
  }
  ~TemporaryFolder() {
    for (const std::string& name : names()) ::unlink((path_ + "/" + name).c_str());
    ::rmdir(path_.c_str());
  }
  const std::string& path() const { return path_; }

  std::vector<std::string> names() const {
    std::vector<std::string> found;
    DIR* folder = ::opendir(path_.c_str());
    while (const dirent* item = folder ? ::readdir(folder) : nullptr)
      if (std::string name = item->d_name; name != "." && name != "..") found.push_back(name);
    if (folder) ::closedir(folder);
    return found;
  }

 private:
  std::string path_;
};

inline std::string contents_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

inline void write_contents(const std::string& path, const std::string& contents) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << contents;
}

}  // namespace smelt::test
