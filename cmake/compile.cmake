# How this project's targets are compiled so that a build takes minutes. Users of the library inherit none
# of it.

# libFuzzer watches which ways inputs take through the readers of files; kernels would only be slowed.
# clang takes precompiled headers of the same instrumentation alone.
if(TAPEGRAD_FUZZ)
  set(TAPEGRAD_WATCHED_TARGETS tapegrad_base tapegrad_data tapegrad_arrays tapegrad_run tapegrad_apps tapegrad_serve)
  set(watched tapegrad_precompiled_watched)
endif()

# Half of the time of a usual source goes into reading the standard headers and fmt's. By its place among the
# includes, the header has the same name in each clone: a compiler cache finds what another one has compiled.
foreach(precompiled tapegrad_precompiled ${watched})
  add_library(${precompiled} OBJECT EXCLUDE_FROM_ALL ${CMAKE_CURRENT_LIST_DIR}/precompiled.cpp)
  target_link_libraries(${precompiled} PRIVATE fmt::fmt tapegrad_flags)
  target_precompile_headers(${precompiled} PRIVATE <tapegrad/cmake/precompiled.h>)
endforeach()
if(TAPEGRAD_FUZZ)
  target_compile_options(${watched} PRIVATE -fsanitize=fuzzer-no-link)
endif()

# tapegrad_precompile(TARGET…): the targets read what precompiled.h includes from there.
function(tapegrad_precompile)
  foreach(target IN LISTS ARGN)
    if(target IN_LIST TAPEGRAD_WATCHED_TARGETS)
      target_compile_options(${target} PRIVATE -fsanitize=fuzzer-no-link)
      target_precompile_headers(${target} REUSE_FROM tapegrad_precompiled_watched)
    else()
      target_precompile_headers(${target} REUSE_FROM tapegrad_precompiled)
    endif()
  endforeach()
endfunction()

# Sources whose speed nobody notices are compiled at -Og: at -O3, it takes twice as long. Whatever
# computes floats of models or records is not cold, since -Og rounds a·b + c twice.
# At -Og, g++ 12 takes members of std::regex for uninitialised.
set(TAPEGRAD_COLD $<$<CONFIG:Release,RelWithDebInfo>:-Og>
    $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
# From g++ 13 on, -O2 and -O3 of x86 have these options, and a precompiled header is for those who have them, too.
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 13
   AND CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  list(APPEND TAPEGRAD_COLD $<$<CONFIG:Release,RelWithDebInfo>:-munroll-only-small-loops>
       $<$<CONFIG:Release,RelWithDebInfo>:-mvzeroupper>)
endif()

# tapegrad_cold(SOURCE…): cold sources of this folder.
function(tapegrad_cold)
  set_property(SOURCE ${ARGN} APPEND PROPERTY COMPILE_OPTIONS ${TAPEGRAD_COLD})
endfunction()

# tapegrad_cold_room(TARGET [SOURCE…]): a target all of whose sources are cold, but for these.
function(tapegrad_cold_room target)
  target_compile_options(${target} PRIVATE ${TAPEGRAD_COLD})
  if(ARGN AND NOT TAPEGRAD_SANITIZE)
    set_property(SOURCE ${ARGN} APPEND PROPERTY COMPILE_OPTIONS
                 $<$<CONFIG:Release>:-O3> $<$<CONFIG:RelWithDebInfo>:-O2>)
  endif()
endfunction()

# Half of the time of a usual source goes into headers and templates that its neighbours need, too: they are
# compiled together, if names in their unnamed namespaces allow it.
# tapegrad_join(TARGET GROUP SOURCE…): these sources, as one; cold ones apart from others, and apart from first.cmake's
# later ones. Those with options of their own are left out, and so are sources that compute floats which must keep
# their bits: which products and sums a compiler contracts may follow from what stands beside them. CMake's own unity
# build would leave out cold ones, too.
function(tapegrad_join target group)
  if(NOT TAPEGRAD_JOIN)
    return()
  endif()
  foreach(source IN LISTS ARGN)
    get_source_file_property(is_joined ${source} HEADER_FILE_ONLY)
    if(is_joined)
      message(FATAL_ERROR "${target}: ${source} is in two joined sources")
    endif()
    get_source_file_property(options ${source} COMPILE_OPTIONS)
    get_source_file_property(later ${source} TAPEGRAD_LATER)
    set(suffix)
    if(later)
      set(suffix _later)
    endif()
    if("${options}" STREQUAL "${TAPEGRAD_COLD}")
      list(APPEND cold${suffix} ${source})
    elseif(NOT options)
      list(APPEND plain${suffix} ${source})
    endif()
  endforeach()
  foreach(kind plain cold plain_later cold_later)
    list(LENGTH ${kind} count)
    if(count LESS 2)
      continue()
    endif()
    string(REPLACE _plain "" suffix _${kind})
    set(joined ${CMAKE_CURRENT_BINARY_DIR}/joined/${target}/${group}${suffix}.cpp)
    set(includes)
    set(files)
    foreach(source IN LISTS ${kind})
      get_filename_component(path ${source} ABSOLUTE)
      file(RELATIVE_PATH place ${PROJECT_SOURCE_DIR} ${path})
      if(NOT place MATCHES "^\\.\\./")  # a build folder may be elsewhere
        set(path tapegrad/${place})
      endif()
      string(APPEND includes "#include \"${path}\"\n")
      get_source_file_property(more ${source} OBJECT_DEPENDS)
      if(more)
        list(APPEND files ${more})
      endif()
    endforeach()
    file(CONFIGURE OUTPUT ${joined} CONTENT "${includes}" @ONLY)
    set_source_files_properties(${${kind}} PROPERTIES HEADER_FILE_ONLY ON)
    set_source_files_properties(${joined} PROPERTIES OBJECT_DEPENDS "${files}")
    if(kind MATCHES cold)
      tapegrad_cold(${joined})
    endif()
    if(kind MATCHES later)
      set_property(SOURCE ${joined} PROPERTY TAPEGRAD_LATER ON)
    endif()
    target_sources(${target} PRIVATE ${joined})
  endforeach()
endfunction()

# tapegrad_join_folders(TARGET FOLDER…): the target's sources of each folder, as one.
function(tapegrad_join_folders target)
  get_target_property(sources ${target} SOURCES)
  foreach(folder IN LISTS ARGN)
    set(members ${sources})
    list(FILTER members INCLUDE REGEX "^${folder}/[^/]*\\.cpp$")
    string(MAKE_C_IDENTIFIER ${folder} group)
    tapegrad_join(${target} ${group} ${members})
  endforeach()
endfunction()
