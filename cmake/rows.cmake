# tapegrad_rows(TARGET TABLE T HEADER H NAMESPACE N ROW TYPE FILES PATTERN… [SUFFIX S] [FIRST NAME]): a
# table whose rows are files. It compiles each source that fits a PATTERN, and the function T() that header H declares.
# T() calls a function of each source, which has the source's name and SUFFIX: gpt2_family() is in
# gpt2_family.cpp. So a new row is one file. The row of FIRST comes first, the others by the alphabet. Rows
# that register themselves would be dropped by the linker.
function(tapegrad_rows target)
  cmake_parse_arguments(ARG "" "TABLE;HEADER;NAMESPACE;ROW;SUFFIX;FIRST" "FILES" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${ARG_FILES})
  list(TRANSFORM sources REPLACE ".*/" "" OUTPUT_VARIABLE rows)
  list(SORT rows)
  foreach(row IN LISTS rows)
    string(REGEX REPLACE "\\.cpp$" "" row ${row})
    string(APPEND declarations "${ARG_ROW} ${row}${ARG_SUFFIX}();\n")
    set(call "  rows.push_back(${row}${ARG_SUFFIX}());\n")
    if(row STREQUAL "${ARG_FIRST}")
      string(PREPEND calls "${call}")
    else()
      string(APPEND calls "${call}")
    endif()
  endforeach()
  set(table ${CMAKE_CURRENT_BINARY_DIR}/${ARG_TABLE}.cpp)
  configure_file(${PROJECT_SOURCE_DIR}/cmake/rows.cpp.in ${table} @ONLY)
  target_sources(${target} PRIVATE ${sources} ${table})
endfunction()
