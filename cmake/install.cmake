# Installs the library: headers, libraries, and files by which others find them.
include(CMakePackageConfigHelpers)
get_property(components GLOBAL PROPERTY TAPEGRAD_COMPONENTS)
get_property(headers GLOBAL PROPERTY TAPEGRAD_PUBLIC_HEADERS)
list(TRANSFORM components PREPEND tapegrad_ OUTPUT_VARIABLE libraries)

# A build that lacks something is refused before anything is copied.
foreach(library IN LISTS libraries)
  list(APPEND library_files $<TARGET_FILE:${library}>)
endforeach()
set(program_files)
if(TAPEGRAD_BUILD_APPS)
  set(program_files $<TARGET_FILE:tapegrad_program>)
  set(target " --target programs")
endif()
install(CODE "
  function(check_built)  # whose variables end with it: generated lines compare names of components
    set(files_of_libraries \"${library_files}\")
    set(files_of_development \"${library_files}\")
    set(files_of_programs \"${program_files}\")
    foreach(component programs libraries development)
      if(NOT CMAKE_INSTALL_COMPONENT OR CMAKE_INSTALL_COMPONENT STREQUAL component)
        foreach(file IN LISTS files_of_\${component})
          file(TIMESTAMP \${file} year %Y UTC)  # that of the first program: see place.cmake
          if(NOT EXISTS \${file} OR year STREQUAL 2000)
            list(APPEND missing \${file})
          endif()
        endforeach()
      endif()
    endforeach()
    if(missing)
      list(REMOVE_DUPLICATES missing)
      list(JOIN missing \"\\n  \" missing)
      message(FATAL_ERROR \"Nothing was installed, since this is not built yet:\\n  \${missing}\\nBuild it first:\\n  cmake --build ${PROJECT_BINARY_DIR}${target}\")
    endif()
  endfunction()
  check_built()" ALL_COMPONENTS)

install(TARGETS tapegrad ${libraries} EXPORT tapegradTargets
        LIBRARY COMPONENT libraries NAMELINK_COMPONENT development ARCHIVE COMPONENT development)
foreach(header IN LISTS headers ITEMS tapegrad/tapegrad.h)
  get_filename_component(folder ${header} DIRECTORY)
  install(FILES ${TAPEGRAD_INCLUDE_DIR}/${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/${folder} COMPONENT development)
endforeach()
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT license)

# find_package(tapegrad) for other projects.
list(JOIN components " " TAPEGRAD_COMPONENTS)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/tapegrad)
install(EXPORT tapegradTargets NAMESPACE tapegrad:: DESTINATION ${package_dir} COMPONENT development)
configure_package_config_file(scripts/tapegradConfig.cmake.in tapegradConfig.cmake
                              INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(tapegradConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/tapegradConfig.cmake ${PROJECT_BINARY_DIR}/tapegradConfigVersion.cmake
        DESTINATION ${package_dir} COMPONENT development)

# And for those who build without CMake: pkg-config tapegrad. Whoever needs another library stands before it.
file(RELATIVE_PATH up_to_prefix ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
list(REVERSE libraries)
foreach(library IN LISTS libraries)
  get_target_property(others ${library} LINK_LIBRARIES)
  list(FILTER others INCLUDE REGEX "^/")
  list(APPEND other_libraries ${others})
endforeach()
list(REMOVE_DUPLICATES other_libraries)
list(JOIN other_libraries " " other_libraries)
foreach(folder LIBDIR INCLUDEDIR)
  set(pc_${folder} ${CMAKE_INSTALL_${folder}})  # absolute for some distributions
  if(NOT IS_ABSOLUTE ${pc_${folder}})
    set(pc_${folder} "\${prefix}/${pc_${folder}}")
  endif()
endforeach()
# tapegrad_pc(NAME BEFORE AFTER OTHERS): a file for pkg-config, with each library's name between BEFORE and AFTER.
function(tapegrad_pc pc_name before after other_libraries)
  list(TRANSFORM libraries REPLACE "(.+)" "${before}\\1${after}")
  list(JOIN libraries " " own_libraries)
  configure_file(scripts/tapegrad.pc.in ${pc_name}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${pc_name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development ${ARGN})
endfunction()
if(BUILD_SHARED_LIBS)  # which name by themselves what they need
  tapegrad_pc(tapegrad -l "" "")
else()
  tapegrad_pc(tapegrad -l "" "${other_libraries}")
endif()
