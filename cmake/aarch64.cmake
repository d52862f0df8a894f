# For CMAKE_TOOLCHAIN_FILE: compiles for 64-bit ARM on Debian for x86-64. TAPEGRAD_ARM64_ROOT is where scripts/arm64_root.sh
# has unpacked ARM's libraries. scripts/arm64_run.sh runs the tests.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)

set(TAPEGRAD_ARM64_ROOT "" CACHE PATH "ARM's libraries, from scripts/arm64_root.sh")
if(NOT EXISTS ${TAPEGRAD_ARM64_ROOT}/usr/lib/aarch64-linux-gnu)
  message(FATAL_ERROR "-DTAPEGRAD_ARM64_ROOT=${TAPEGRAD_ARM64_ROOT} has no usr/lib/aarch64-linux-gnu. Please run "
    "scripts/arm64_root.sh FOLDER and give that folder by its whole path")
endif()
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES TAPEGRAD_ARM64_ROOT)

# Programs and headers without code (Boost's, Catch2's) are this machine's, libraries are the root's.
set(CMAKE_FIND_ROOT_PATH ${TAPEGRAD_ARM64_ROOT})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE BOTH)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE BOTH)
foreach(kind EXE SHARED)
  set(CMAKE_${kind}_LINKER_FLAGS_INIT
    "-Wl,-rpath-link,${TAPEGRAD_ARM64_ROOT}/lib/aarch64-linux-gnu:${TAPEGRAD_ARM64_ROOT}/usr/lib/aarch64-linux-gnu")
endforeach()
