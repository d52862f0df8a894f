# An overlay port of the checkout that it is part of: vcpkg install tapegrad --overlay-ports=scripts/vcpkg
# OpenBLAS is the system's: it is loaded at run time, and a library of vcpkg's usual kind, a static one, cannot be.
message(STATUS "tapegrad needs OpenBLAS of the system: libopenblas-openmp-dev of Debian and Ubuntu")
get_filename_component(source "${CMAKE_CURRENT_LIST_DIR}/../.." ABSOLUTE)
vcpkg_cmake_configure(
  SOURCE_PATH "${source}"
  OPTIONS -DTAPEGRAD_NATIVE=OFF -DTAPEGRAD_ONEDNN=OFF -DTAPEGRAD_MPI=OFF -DTAPEGRAD_BUILD_APPS=OFF -DTAPEGRAD_BUILD_TESTS=OFF)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(CONFIG_PATH lib/cmake/tapegrad)
vcpkg_fixup_pkgconfig()
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include" "${CURRENT_PACKAGES_DIR}/debug/share")
vcpkg_install_copyright(FILE_LIST "${source}/LICENSE")
