# tapegrad_embed(<target> <symbol> <file>)
#
# Packs the bytes of <file> into <target> when it is built, so that programs need no data folder.
# A function returns the bytes; the source that calls it declares it:
#
#   namespace tapegrad::embedded { std::string_view <symbol>(); }
#
# The target is rebuilt when the file changes. <file> may also be the output of a custom command of
# the same CMakeLists.txt as <target>; a relative path is one in the current source folder. The
# assembler copies the bytes (.incbin, ELF systems only), which costs no time at any size.
function(tapegrad_embed target symbol file)
  get_filename_component(path "${file}" ABSOLUTE)
  string(REPLACE "\"" "\\\"" quoted_path "${path}")
  set(source ${CMAKE_CURRENT_BINARY_DIR}/embedded_${symbol}.cpp)
  configure_file(${CMAKE_CURRENT_FUNCTION_LIST_DIR}/embed.cpp.in ${source} @ONLY)
  set_source_files_properties(${source} TARGET_DIRECTORY ${target}
    PROPERTIES OBJECT_DEPENDS "${path}")
  target_sources(${target} PRIVATE ${source})
endfunction()
