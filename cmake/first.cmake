# The first program: `tapegrad` with what a first training and its samples run, four tenths of a compiler's work.
# scripts/quickstart.sh builds it before the rest. Its objects are parts of the libraries, so nothing is compiled
# twice. Its calls of what is not compiled yet, its doors, end with a sentence that says how: see cmake/doors.sh.

# A shared library is linked as a whole, sanitizers' and fuzzers' builds are for tests, and objects for optimisation
# at link time need not name what they call.
if(TAPEGRAD_BUILD_APPS AND NOT BUILD_SHARED_LIBS AND NOT TAPEGRAD_SANITIZE AND NOT CMAKE_CONFIGURATION_TYPES
   AND NOT CMAKE_INTERPROCEDURAL_OPTIMIZATION)
  set(TAPEGRAD_FIRST yes)
  set(TAPEGRAD_FIRST_COMMANDS commands/train_gpt.cpp commands/sample_text.cpp)
  add_library(tapegrad_first_parts INTERFACE)  # what the libraries need of others
endif()

# tapegrad_later(PATTERN…): sources of this folder, of folders in it, too, that the first program does without.
# Whatever no pattern names is compiled first. Comes before sources are joined.
function(tapegrad_later)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${ARGN})
  set_property(SOURCE ${sources} PROPERTY TAPEGRAD_LATER ${TAPEGRAD_FIRST})
endfunction()

# tapegrad_first(PATTERN…): and of these, the ones that it needs all the same.
function(tapegrad_first)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${ARGN})
  set_property(SOURCE ${sources} PROPERTY TAPEGRAD_LATER)
endfunction()

# tapegrad_part(TARGET): the first program has those sources of the target that are not later ones.
macro(tapegrad_part target)
  if(TAPEGRAD_FIRST)
    cmake_language(DEFER CALL tapegrad_split ${target})  # when the folder's CMakeLists.txt has named all of them
  endif()
endmacro()

# Its first sources become a target of their own with the same options.
function(tapegrad_split target)
  get_target_property(sources ${target} SOURCES)
  set(first)
  set(rest)
  foreach(source IN LISTS sources)
    get_source_file_property(later ${source} TAPEGRAD_LATER)
    get_source_file_property(joined ${source} HEADER_FILE_ONLY)
    if(later OR joined OR source MATCHES "^\\$<")
      list(APPEND rest ${source})
    else()
      list(APPEND first ${source})
    endif()
  endforeach()
  if(NOT first)
    return()
  endif()
  add_library(${target}_first OBJECT ${first})
  set_target_properties(${target} PROPERTIES LINKER_LANGUAGE CXX SOURCES "${rest};$<TARGET_OBJECTS:${target}_first>")
  # Headers and libraries of others alone: whoever waited for a library of this project would wait for all of it.
  foreach(property COMPILE_OPTIONS COMPILE_DEFINITIONS INCLUDE_DIRECTORIES INTERFACE_INCLUDE_DIRECTORIES LINK_LIBRARIES)
    get_target_property(${property} ${target} ${property})
    list(FILTER ${property} EXCLUDE REGEX "NOTFOUND$|^[$]<(BUILD|INSTALL)_INTERFACE:(/|include)|^([$]<BUILD_INTERFACE:)?tapegrad_")
  endforeach()
  target_compile_options(${target}_first PRIVATE ${COMPILE_OPTIONS})
  target_compile_definitions(${target}_first PRIVATE ${COMPILE_DEFINITIONS})
  target_include_directories(${target}_first SYSTEM PRIVATE ${INCLUDE_DIRECTORIES})
  target_include_directories(tapegrad_first_parts SYSTEM INTERFACE ${INTERFACE_INCLUDE_DIRECTORIES})
  target_link_libraries(tapegrad_first_parts INTERFACE ${LINK_LIBRARIES})
  get_target_property(generated ${target} MANUALLY_ADDED_DEPENDENCIES)  # headers that a target makes
  if(generated)
    add_dependencies(${target}_first ${generated})
  endif()
  target_link_libraries(${target}_first PRIVATE tapegrad_flags tapegrad_first_parts)
  tapegrad_precompile(${target}_first)
  set_property(GLOBAL APPEND PROPERTY TAPEGRAD_FIRST_TARGETS ${target}_first)
endfunction()
