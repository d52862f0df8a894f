# cmake -DROOT=… -DLIST=… -DOUTPUT=… -P pack_corpus.cmake
#
# Joins the files that LIST names, one path below ROOT per line, into one text: each under a line
# with its path.
file(STRINGS ${LIST} paths)
set(marker "==== ")
file(WRITE ${OUTPUT} "")
foreach(path IN LISTS paths)
  file(READ ${ROOT}/${path} text)
  file(APPEND ${OUTPUT} "${marker}${path}\n\n${text}\n")
endforeach()
