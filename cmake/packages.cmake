# Debian packages, by cpack: see scripts/package.sh, which puts pages for man, a changelog, and the libraries for
# newer processors into folders of the build folder before.
set(soversion ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
set(CPACK_DEBIAN_PROGRAMS_PACKAGE_NAME tapegrad)
set(CPACK_DEBIAN_LIBRARIES_PACKAGE_NAME libtapegrad${soversion})
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libtapegrad-dev)
set(CPACK_DEBIAN_DOC_PACKAGE_NAME tapegrad-doc)
set(components programs libraries development doc)
get_property(parts GLOBAL PROPERTY TAPEGRAD_COMPONENTS)
list(TRANSFORM parts PREPEND tapegrad_)
add_custom_target(libraries DEPENDS ${parts})

# Static libraries of the same objects, beside the shared ones: `pkg-config --libs tapegrad-static` links them.
if(BUILD_SHARED_LIBS AND TAPEGRAD_INSTALL)
  foreach(part IN LISTS parts)
    add_library(${part}_static STATIC EXCLUDE_FROM_ALL $<TARGET_OBJECTS:${part}>)
    set_target_properties(${part}_static PROPERTIES OUTPUT_NAME ${part} LINKER_LANGUAGE CXX)
    list(APPEND static_parts ${part}_static)
  endforeach()
  add_custom_target(static_libraries DEPENDS ${static_parts})
  install(TARGETS ${static_parts} ARCHIVE COMPONENT development EXCLUDE_FROM_ALL OPTIONAL)
  tapegrad_pc(tapegrad-static -l:lib .a "${other_libraries}" EXCLUDE_FROM_ALL)
endif()

# What only packages have is no part of `cmake --install`.
set(folder ${CMAKE_INSTALL_DATADIR}/doc/tapegrad-doc)
install(FILES README.md CHANGELOG.md DESTINATION ${folder} COMPONENT doc EXCLUDE_FROM_ALL)
install(DIRECTORY docs DESTINATION ${folder} COMPONENT doc EXCLUDE_FROM_ALL
        FILES_MATCHING PATTERN *.md PATTERN *.svg PATTERN *.png PATTERN *.cpp)
install(DIRECTORY ${PROJECT_BINARY_DIR}/man/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1
        COMPONENT programs EXCLUDE_FROM_ALL OPTIONAL)
install(DIRECTORY ${PROJECT_BINARY_DIR}/glibc-hwcaps DESTINATION ${CMAKE_INSTALL_LIBDIR}
        COMPONENT libraries EXCLUDE_FROM_ALL OPTIONAL USE_SOURCE_PERMISSIONS)
foreach(component IN LISTS components)
  string(TOUPPER ${component} COMPONENT)
  set(CPACK_DEBIAN_${COMPONENT}_FILE_NAME DEB-DEFAULT)
  set(folder ${CMAKE_INSTALL_DATADIR}/doc/${CPACK_DEBIAN_${COMPONENT}_PACKAGE_NAME})
  install(FILES LICENSE DESTINATION ${folder} RENAME copyright COMPONENT ${component} EXCLUDE_FROM_ALL)
  install(FILES ${PROJECT_BINARY_DIR}/changelog.gz DESTINATION ${folder}
          COMPONENT ${component} EXCLUDE_FROM_ALL OPTIONAL)
endforeach()

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_CONTACT "The tapegrad authors <tapegrad@localhost>" CACHE STRING "Who maintains the packages")
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_ALL ${components})
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
    OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)

# Debian's tools name the packages of the libraries that a package is linked with; OpenBLAS is not linked, but
# loaded. Whoever links ours gets their package by `shlibs`; the loader's list of libraries is made anew by `triggers`.
set(CPACK_DEBIAN_PROGRAMS_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_LIBRARIES_PACKAGE_SHLIBDEPS ON)
foreach(part IN LISTS parts)
  get_target_property(folder ${part} BINARY_DIR)
  list(APPEND CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${folder})
  string(APPEND shlibs "lib${part} ${soversion} libtapegrad${soversion} (>= ${PROJECT_VERSION})\n")
endforeach()
file(CONFIGURE OUTPUT deb/shlibs CONTENT "${shlibs}")
file(CONFIGURE OUTPUT deb/triggers CONTENT "activate-noawait ldconfig\n")
set(CPACK_DEBIAN_LIBRARIES_PACKAGE_CONTROL_EXTRA ${PROJECT_BINARY_DIR}/deb/shlibs ${PROJECT_BINARY_DIR}/deb/triggers)
set(CPACK_DEBIAN_LIBRARIES_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_LIBRARIES_PACKAGE_DEPENDS libopenblas0-openmp)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS libfmt-dev)
# For the static libraries alone.
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_RECOMMENDS "libdnnl-dev, libpcre2-dev, libutf8proc-dev, libzstd-dev, zlib1g-dev")
set(CPACK_DEBIAN_ENABLE_COMPONENT_DEPENDS ON)
set(CPACK_COMPONENT_PROGRAMS_DEPENDS libraries)
set(CPACK_COMPONENT_DEVELOPMENT_DEPENDS libraries)

set(CPACK_DEBIAN_PROGRAMS_PACKAGE_SECTION science)
set(CPACK_DEBIAN_LIBRARIES_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DOC_PACKAGE_SECTION doc)
set(CPACK_DEBIAN_DOC_PACKAGE_ARCHITECTURE all)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "autograd framework that trains GPTs on CPUs")
string(CONCAT about "tapegrad trains GPTs on CPUs without Python, and reads, measures,\n"
       "writes and serves models of Hugging Face, GGUF and nanoGPT. It is a\n"
       "program, and a library of C++20 with tensors, derivatives, layers,\n"
       "optimisers and data loaders.\n.\nThis package has ")
set(CPACK_COMPONENT_PROGRAMS_DESCRIPTION "${about}the program.")
set(CPACK_COMPONENT_LIBRARIES_DESCRIPTION
    "${about}the libraries, compiled for\nprocessors of three levels: the loader takes what fits.")
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION "${about}the headers, and\nstatic libraries.")
set(CPACK_COMPONENT_DOC_DESCRIPTION "${about}the documentation.")
include(CPack)
