# SPDX-License-Identifier: Apache-2.0
# Which headers are installed, by the rule of docs/ARCHITECTURE.md: those of the public rooms, but not one that says
# "Not installed" in its first lines; of kernels and runtime those named here (tests/include_arrows_test.py has the
# same list).
function(headwise_public_headers result)
  set(headers headwise/headwise.h
      headwise/kernels/attention.h headwise/kernels/linear.h
      headwise/runtime/execution.h headwise/runtime/function_ref.h headwise/runtime/isa.h headwise/runtime/random.h
      headwise/runtime/threads.h)
  foreach(room tensor layers models io checkpoints lens)
    file(GLOB room_headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/headwise/${room}/*.h)
    foreach(header ${room_headers})
      file(READ ${PROJECT_SOURCE_DIR}/${header} beginning LIMIT 800)
      if(NOT beginning MATCHES "Not[ \n/]+installed")
        list(APPEND headers ${header})
      endif()
    endforeach()
  endforeach()
  set(${result} ${headers} PARENT_SCOPE)
endfunction()
