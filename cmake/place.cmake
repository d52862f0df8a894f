# cmake -DFROM=PROGRAM -DTO=PROGRAM -P cmake/place.cmake
# Puts the first program where the whole one belongs, unless that is there. Its date says which one it is: older
# than all that the whole one is made of, it is replaced by every way to build that.
file(TIMESTAMP ${TO} year %Y UTC)
if(year STREQUAL 2000 OR NOT EXISTS ${TO})
  file(COPY_FILE ${FROM} ${TO}.new)
  execute_process(COMMAND touch -d 2000-06-01 ${TO}.new COMMAND_ERROR_IS_FATAL ANY)
  file(RENAME ${TO}.new ${TO})  # a running program keeps its file
endif()
