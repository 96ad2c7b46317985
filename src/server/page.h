// The web page: files of src/server/page/, which are part of the program.
#pragma once

#include <string_view>

namespace smelt {

struct PageFile {
  const char* path;  // "/app.js"
  const char* type;
  std::string_view bytes;
};

// Null: the page has no such file.
const PageFile* page_file(std::string_view path);

}  // namespace smelt
