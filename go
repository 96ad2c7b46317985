#!/usr/bin/env bash
# The two commands of the README.
#   ./go               installs what is missing, builds, and writes a story with the model inside the program
#   ./go test [ARGS]   builds and runs the tests; ARGS go to ctest (-R NAME runs some of them)
#   ./go build         builds the program as build/smelt
#   ./go ARGS          builds, then runs `smelt ARGS`
set -euo pipefail
cd "$(dirname "$0")"

build() { # build TARGET: silent unless it takes work
  tools/setup
  # clang, which tools/setup installs, takes a quarter less time than g++.
  local options=(-DCMAKE_BUILD_TYPE=Release)
  ! command -v clang++-19 >/dev/null || options+=(-DCMAKE_C_COMPILER=clang-19 -DCMAKE_CXX_COMPILER=clang++-19)
  [ -f build/build.ninja ] || cmake -S . -B build -G Ninja "${options[@]}" >/dev/null
  if ninja -C build -n "$1" | grep -q 'no work to do'; then return; fi
  echo "building (the first time takes a few minutes)" >&2
  ninja -C build "$1" >&2
}

case "${1:-}" in
  "")
    build smelt
    exec build/smelt run </dev/null
    ;;
  build)
    build smelt
    echo "build/smelt is ready"
    ;;
  test)
    shift
    build all
    exec ctest --test-dir build --output-on-failure -j "$(nproc)" "$@"
    ;;
  *)
    build smelt
    exec build/smelt "$@"
    ;;
esac
