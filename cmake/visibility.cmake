# SPDX-License-Identifier: Apache-2.0
# What a shared library exports: what its public headers declare, and nothing else. Every source of the library sees
# those declarations first, with default visibility; all others are hidden by the preset of CMakeLists.txt. So no
# header carries an export macro, and what a new public header declares is exported because that header is public.
# Function templates are the exception: headwise/tensor/visibility.h.
function(headwise_export_public_declarations target)
  set(text "#pragma GCC visibility push(default)\n")
  foreach(header ${ARGN})
    string(APPEND text "#include \"${header}\"\n")
  endforeach()
  string(APPEND text "#pragma GCC visibility pop\n")
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/public_declarations.h CONTENT "${text}" @ONLY)
  target_compile_definitions(${target} PRIVATE HEADWISE_SHARED)
  target_compile_options(${target} PRIVATE -include ${PROJECT_BINARY_DIR}/public_declarations.h)
endfunction()
