#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The installed library, used from a folder outside the repository: static, and shared with one instruction set. Builds
# the examples with find_package and with pkg-config and runs them; checks what the shared library exports and its size.
# Usage: tests/installed_package.sh MODEL [STRICT], where MODEL is the folder of all-MiniLM-L6-v2 and STRICT is ON or OFF:
# whether warnings are errors.
set -euo pipefail
cd "$(dirname "$0")/.."
repository="$PWD"
model=$1
strict=${2:-OFF}
build="$repository/build/installed"
outside="$(mktemp -d)"
current="nothing"
# What failed, and what it printed: a check is not run inside a condition, where the shell would go on after an error.
finish() {
  local code=$?
  if [ "$code" -ne 0 ]; then
    cat "$outside/output" >&2 || true
    echo "failed: $current" >&2
  fi
  rm -rf "$outside"
  exit "$code"
}
trap finish EXIT

passed=0
check() {
  current="$1"
  shift
  "$@" >"$outside/output" 2>&1
  echo "ok: $current"
  passed=$((passed + 1))
}

# Fails when a line of the file matches.
no_line() {
  if grep -E "$@"; then return 1; fi
}

# install_library NAME OPTION...: builds and installs the library alone.
install_library() {
  local name="$1"
  shift
  cmake -G Ninja -S "$repository" -B "$build/$name" -DCMAKE_BUILD_TYPE=Release -DHEADWISE_BUILD_TESTS=OFF \
    -DHEADWISE_BUILD_CLI=OFF -DCMAKE_INSTALL_PREFIX="$outside/$name" -DCMAKE_INSTALL_LIBDIR=lib \
    -DHEADWISE_WARNINGS_AS_ERRORS="$strict" "$@"
  cmake --build "$build/$name"
  cmake --install "$build/$name"
}

# A copy of the examples, so that nothing of the repository is beside them.
build_examples() {
  cp -r "$repository/examples" "$outside/examples-$1"
  cmake -G Ninja -S "$outside/examples-$1" -B "$outside/examples-$1/build" -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_PREFIX_PATH="$outside/$1"
  cmake --build "$outside/examples-$1/build"
}

run_examples() { ctest --test-dir "$outside/examples-$1/build" --output-on-failure --no-tests=error; }

shows_a_head() {
  "$outside/examples-$1/build/look_into_minilm" "$model" 3 0 | tee "$outside/head"
  grep -q '^layer 3, head 0 of 12' "$outside/head"
  [ "$(grep -c -- '->' "$outside/head")" -eq 13 ]
}

# Every public header alone, as a user's compiler sees it: warnings are errors.
every_header_compiles() {
  local header
  (cd "$outside/$1/include" && find headwise -name '*.h') >"$outside/headers"
  [ "$(wc -l <"$outside/headers")" -gt 30 ]
  while read -r header; do
    echo "#include <$header>" |
      "${CXX:-c++}" -std=c++20 -Wall -Wextra -Wpedantic -Wshadow -Werror -fsyntax-only -x c++ -I"$outside/$1/include" -
  done <"$outside/headers"
}

pkg_config_builds() {
  export PKG_CONFIG_PATH="$outside/$1/lib/pkgconfig"
  # shellcheck disable=SC2046,SC2086  # flags are words
  "${CXX:-c++}" -O1 "$repository/examples/first_layer.cc" $(pkg-config --cflags headwise) -o "$outside/first-$1" \
    $(pkg-config --libs $2 headwise) "-Wl,-rpath,$outside/$1/lib"
  [ "$("$outside/first-$1")" = "out (1, 6, 2)" ]
}

# The exported names are the namespace's own (and what the compiler makes of the standard library's templates); none of
# them belongs to the kernels' inside.
exports_only_public_names() {
  nm -DC --defined-only "$outside/shared/lib/libheadwise.so" | cut -c18- >"$outside/names"
  # Every function template that a header instantiates; the last word before the parenthesis is its name.
  grep -rhE '^ *extern template [^(]*\(' "$outside/shared/include" | grep -v 'template class' |
    sed -E 's/^([^(]*[ &>])?([a-z0-9_]+)\(.*/\2/' | sort -u >"$outside/functions"
  [ "$(wc -l <"$outside/functions")" -gt 10 ]
  while read -r name; do
    grep -qE "headwise::$name<(float|double)>\\(" "$outside/names" || { echo "$name is not exported"; return 1; }
  done <"$outside/functions"
  no_line -v '^. (headwise::|_ZZ?NK?8headwise|.* headwise::|(vtable|typeinfo|typeinfo name|VTT|guard variable) for (headwise|std)|std::|.* std::|.* __gnu_cxx)' "$outside/names"
  no_line 'N_AVX|N_NEON|canonical_|reference_|ThreadPool|ScratchFrame|fmt::|nlohmann::|hwy::' "$outside/names"
}

is_below_two_megabytes() {
  local bytes
  strip -o "$outside/stripped.so" "$outside/shared/lib/libheadwise.so"
  bytes="$(stat -c %s "$outside/stripped.so")"
  echo "$bytes bytes"
  [ "$bytes" -lt 2000000 ]
}

refuses_a_wrong_instruction_set() {
  if cmake -G Ninja -S "$repository" -B "$outside/wrong" -DHEADWISE_X86_ISAS=sse9 >"$outside/wrong.txt" 2>&1; then
    return 1
  fi
  grep -q "HEADWISE_X86_ISAS must hold avx2, avx512 or both, got 'sse9'" "$outside/wrong.txt"
}

check "the static library is built and installed" install_library static
check "the shared library is built for AVX2 alone and installed" install_library shared -DBUILD_SHARED_LIBS=ON \
  -DHEADWISE_X86_ISAS=avx2
for kind in static shared; do
  check "$kind: an outside project finds the package and builds the examples" build_examples "$kind"
  check "$kind: the examples run: the first layer, one head beside two" run_examples "$kind"
  check "$kind: MiniLM's layer 3 is loaded and a head of it printed" shows_a_head "$kind"
done
check "static: every installed header compiles alone" every_header_compiles static
check "static: pkg-config gives flags that build and run" pkg_config_builds static --static
check "shared: pkg-config gives flags that build and run" pkg_config_builds shared ""
check "shared: only public names are exported" exports_only_public_names
check "shared: stripped, it is smaller than 2 MB" is_below_two_megabytes
check "a name that is no instruction set is refused" refuses_a_wrong_instruction_set
echo "$passed passed, 0 failed"
