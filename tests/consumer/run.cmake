# Installs the build in BUILD_DIR into a fresh folder, builds the consumer, one of the tutorial's programs and
# the examples against it and runs them.
# usage: cmake -DBUILD_DIR=… -DSOURCE_DIR=… -DWORK_DIR=… -DCXX=… -DCXX_FLAGS=… -P run.cmake
function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "${ARGN}\nfailed (${result}):\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

function(expect pattern)
  if(NOT output MATCHES "${pattern}")
    message(FATAL_ERROR "'${pattern}' is not in\n${output}")
  endif()
endfunction()

function(build source)
  run(${CMAKE_COMMAND} -S ${SOURCE_DIR}/${source} -B ${WORK_DIR}/${source} -DCMAKE_BUILD_TYPE=Release
      -DCMAKE_PREFIX_PATH=${WORK_DIR}/prefix -DCMAKE_CXX_COMPILER=${CXX} "-DCMAKE_CXX_FLAGS=${CXX_FLAGS} -Wall -Wextra -Wpedantic -Werror")
  run(${CMAKE_COMMAND} --build ${WORK_DIR}/${source})
endfunction()

file(REMOVE_RECURSE ${WORK_DIR})
run(${CMAKE_COMMAND} --install ${BUILD_DIR} --prefix ${WORK_DIR}/prefix)

# No folder of a general name gets onto the users' include path, and no internal header.
file(GLOB installed RELATIVE ${WORK_DIR}/prefix/include ${WORK_DIR}/prefix/include/*)
if(NOT installed STREQUAL "tapegrad")
  message(FATAL_ERROR "headers are installed outside tapegrad/: ${installed}")
endif()
foreach(internal base/json/internal/json_file.h autograd/gemm/internal/library.h run/folder/internal/config_json.h)
  if(EXISTS ${WORK_DIR}/prefix/include/tapegrad/${internal})
    message(FATAL_ERROR "${internal} is internal, and installed")
  endif()
endforeach()

foreach(file LICENSE LICENSE.uPlot)
  file(GLOB_RECURSE found ${WORK_DIR}/prefix/share/doc/tapegrad/${file})
  if(NOT found)
    message(FATAL_ERROR "share/doc/tapegrad/${file} is not installed")
  endif()
endforeach()

# An unknown component is named, with those that there are.
execute_process(COMMAND ${CMAKE_COMMAND} -S ${SOURCE_DIR}/tests/consumer -B ${WORK_DIR}/unknown
  -DCMAKE_PREFIX_PATH=${WORK_DIR}/prefix -DCMAKE_CXX_COMPILER=${CXX} -DMORE_COMPONENTS=gpu
  RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
expect("no[ \n]+component[ \n]+'gpu';[ \n]+it[ \n]+has[ \n]+base[ \n]")
if(result EQUAL 0)
  message(FATAL_ERROR "an unknown component is accepted")
endif()

# A program in C++17 gets a sentence, whichever header it includes.
foreach(header tapegrad.h autograd/ops.h data/chat/chat_template.h base/option_schema.h)
  file(WRITE ${WORK_DIR}/cxx17.cpp "#include <tapegrad/${header}>\n")
  execute_process(COMMAND ${CXX} -std=c++17 -fsyntax-only -I${WORK_DIR}/prefix/include ${WORK_DIR}/cxx17.cpp
    RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  string(REGEX MATCH "error: [^\n]*" output "${output}")  # the first error of all
  expect("tapegrad needs C\\+\\+20")
endforeach()

build(tests/consumer)
run(${WORK_DIR}/tests/consumer/consumer)
expect("step 50: loss 0\\.")
run(${WORK_DIR}/tests/consumer/04_residual_gradients)
expect("the first layer gets 1099 times as much")

# The same without CMake.
find_program(PKG_CONFIG NAMES pkg-config pkgconf)
if(PKG_CONFIG)
  file(GLOB_RECURSE pc ${WORK_DIR}/prefix/tapegrad.pc)
  get_filename_component(pc ${pc} DIRECTORY)
  set(ENV{PKG_CONFIG_PATH} ${pc})
  run(${PKG_CONFIG} --cflags --libs "tapegrad >= 0.2")
  string(STRIP "${output}" flags)
  separate_arguments(flags UNIX_COMMAND "${flags} ${CXX_FLAGS}")
  run(${CXX} -std=c++20 ${SOURCE_DIR}/tests/consumer/main.cpp -o ${WORK_DIR}/by_pkg_config ${flags})
  run(${WORK_DIR}/by_pkg_config)
  expect("step 50: loss 0\\.")
endif()

# A project that contains tapegrad, in a folder with a space, gets neither programs nor tests nor files to install, and
# an OpenBLAS from any folder. Catch2 is not looked for.
set(spaced "${WORK_DIR}/a folder")
file(MAKE_DIRECTORY "${spaced}")
file(CREATE_LINK ${SOURCE_DIR} "${spaced}/tapegrad" SYMBOLIC)
file(WRITE "${spaced}/libopenblas_mine.so" "")
run(${CMAKE_COMMAND} -E env --unset=CMAKE_BUILD_TYPE --unset=CMAKE_EXPORT_COMPILE_COMMANDS
    ${CMAKE_COMMAND} -S ${SOURCE_DIR}/tests/consumer/inside -B "${spaced}/build" -DCMAKE_CXX_COMPILER=${CXX}
    "-DTAPEGRAD_FOLDER=${spaced}/tapegrad" "-DOPENBLAS_LIBRARY=${spaced}/libopenblas_mine.so"
    -DCMAKE_DISABLE_FIND_PACKAGE_Catch2=ON)
run(${CMAKE_COMMAND} --install "${spaced}/build" --prefix ${WORK_DIR}/inside)
if(EXISTS ${WORK_DIR}/inside)
  message(FATAL_ERROR "tapegrad installs files of a project that contains it")
endif()

# A compiler's wrapper of MPI whose headers are missing is passed over, and a distribution's unity build
# joins nothing that must not be.
foreach(wrapper mpicxx mpic++)
  file(WRITE ${WORK_DIR}/wrappers/${wrapper} "#!/bin/sh\necho /nowhere/openmpi/include\n")
  file(CHMOD ${WORK_DIR}/wrappers/${wrapper} PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE)
endforeach()
set(path $ENV{PATH})
set(ENV{PATH} ${WORK_DIR}/wrappers:$ENV{PATH})
run(${CMAKE_COMMAND} -S ${SOURCE_DIR} -B ${WORK_DIR}/configured -DCMAKE_CXX_COMPILER=${CXX} -DCMAKE_UNITY_BUILD=ON
    -DTAPEGRAD_JOIN=OFF -DTAPEGRAD_BUILD_TESTS=OFF)
expect("MPI is left out: [^\n]*wrappers/mpi")
file(GLOB_RECURSE joined ${WORK_DIR}/configured/unity_*_cxx.cxx)
if(joined)
  message(FATAL_ERROR "sources are joined: ${joined}")
endif()
set(ENV{PATH} ${path})

# The target `programs`, which the README's first command builds, makes all that is installed: CMake draws what it depends on.
file(WRITE ${WORK_DIR}/configured/CMakeGraphVizOptions.cmake "set(GRAPHVIZ_CUSTOM_TARGETS TRUE)\n")
run(${CMAKE_COMMAND} -S ${SOURCE_DIR} -B ${WORK_DIR}/configured --graphviz=${WORK_DIR}/targets.dot)
file(READ ${WORK_DIR}/targets.dot output)
foreach(target program base comm autograd nn optim data arrays run)
  expect("// programs -> tapegrad_${target}\n")
endforeach()

# Before that is made, nothing is installed, and what is missing is named.
execute_process(COMMAND ${CMAKE_COMMAND} --install ${WORK_DIR}/configured --prefix ${WORK_DIR}/early
  RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
expect("Nothing was installed, since this is not built yet:.*bin/tapegrad\n.*libtapegrad_arrays.*\n *cmake --build [^\n]*--target programs")
if(result EQUAL 0 OR EXISTS ${WORK_DIR}/early)
  message(FATAL_ERROR "a part of what is not built is installed")
endif()

# A model of train-gpt's, from the installed program, generates.
file(WRITE ${WORK_DIR}/text.txt "")
foreach(i RANGE 120)
  file(APPEND ${WORK_DIR}/text.txt "the cat sat on mat ${i} and the dog ate.\n")
endforeach()
run(${WORK_DIR}/prefix/bin/train-gpt --corpus ${WORK_DIR}/text.txt --out-dir ${WORK_DIR}/run --preset char-cpu
    --n-layer 1 --n-head 1 --n-embd 16 --block-size 16 --max-iters 3 --no-sample)
build(examples)
run(${WORK_DIR}/examples/generate ${WORK_DIR}/run "the cat")
expect("bytes more\n.* bytes more")

# A convolutional network learns digits.
run(${WORK_DIR}/examples/digits 100)
expect("step 50: loss [^\n]*\nstep 100: loss 0\\.[^\n]*, accuracy ([789][0-9]|100)\\.")

# The same from files in MNIST's format: ten images of 8 × 8 with a bar each, and labels.
set(images "")
set(labels "")
foreach(digit RANGE 9)
  string(APPEND labels "\\00${digit}")
  if(digit GREATER 7)
    math(EXPR digit_8 "${digit} - 8")
    string(REGEX REPLACE "00.$" "01${digit_8}" labels "${labels}")
  endif()
  foreach(pixel RANGE 63)
    math(EXPR bar "${pixel} % 10")
    if(bar EQUAL digit)
      string(APPEND images "\\377")
    else()
      string(APPEND images "\\000")
    endif()
  endforeach()
endforeach()
set(ten "\\000\\000\\000\\012")
set(eight "\\000\\000\\000\\010")
file(MAKE_DIRECTORY ${WORK_DIR}/mnist)
foreach(part train t10k)
  execute_process(COMMAND printf "\\000\\000\\010\\003${ten}${eight}${eight}${images}" OUTPUT_FILE ${WORK_DIR}/mnist/${part}-images-idx3-ubyte)
  execute_process(COMMAND printf "\\000\\000\\010\\001${ten}${labels}" OUTPUT_FILE ${WORK_DIR}/mnist/${part}-labels-idx1-ubyte)
endforeach()
run(${WORK_DIR}/examples/digits 50 ${WORK_DIR}/mnist)
expect("step 50: loss 0\\.[^\n]*, accuracy 100\\.0 %")
run(${WORK_DIR}/examples/autoencoder 5 ${WORK_DIR}/mnist)
expect("step 5: reconstruction")
execute_process(COMMAND ${WORK_DIR}/examples/digits 50 ${WORK_DIR} RESULT_VARIABLE result ERROR_VARIABLE output)
expect("has no t10k-images-idx3-ubyte or t10k-images-idx3-ubyte.gz")
if(NOT result EQUAL 1)
  message(FATAL_ERROR "a folder without MNIST is no error")
endif()

# A variational autoencoder learns to draw digits, first the parts that all have.
run(${WORK_DIR}/examples/autoencoder 250)
expect("step 250: reconstruction [5-9][0-9]\\.[^\n]*, divergence [12][0-9]\\..*read:\n.*drawn again:\n.*of its own:\n.*@")

# A physics-informed network comes near the solution of the heat equation.
run(${WORK_DIR}/examples/pinn 300)
expect("step 300: equation [^\n]*; largest error 0\\.0[0-9]*, relative error 0\\.0")

# Deep Q-learning balances a pole, the same way each time.
run(${WORK_DIR}/examples/cartpole 60000 3)
expect("mean return (19[5-9]|[2-5][0-9][0-9])\\.[0-9]\n$")
run(${WORK_DIR}/examples/cartpole 2500 3)
set(first "${output}")
run(${WORK_DIR}/examples/cartpole 2500 3)
if(NOT first STREQUAL output)
  message(FATAL_ERROR "equal seeds, other games: ${first}${output}")
endif()

# The engine of docs/how-a-step-works.md learns.
run(${WORK_DIR}/examples/scalar_engine)
expect(" 0: loss 2\\.299159, dw -2\\.953247\n20: loss 0\\.000023, dw -0\\.007037\n40: loss 0\\.000000, dw -0\\.000411\n$")

# A character LSTM learns a text, of which it writes some.
run(${WORK_DIR}/examples/char_lstm ${WORK_DIR}/text.txt 100)
expect("step 50: loss [^\n]*\nstep 100: loss [01]\\..*(cat|dog|mat)")
execute_process(COMMAND ${WORK_DIR}/examples/char_lstm ${WORK_DIR}/text.txt 0 RESULT_VARIABLE result ERROR_VARIABLE output)
expect("there must be a step or more, not 0")

# The gradients of a user's own op and model are checked in f32, and a wrong one is named.
run(${WORK_DIR}/examples/own_op)
expect("softsign.* ok\n.*loss, first.weight.* ok\n")
execute_process(COMMAND ${WORK_DIR}/examples/own_op wrong RESULT_VARIABLE result OUTPUT_VARIABLE output)
expect("softsign.* WRONG; most at element \\([0-7], [0-2]\\): analytic .*, numeric .* over a step of")
expect("loss, first.weight.* WRONG; most at element")
expect("loss, second.weight.* ok")
if(NOT result EQUAL 1)
  message(FATAL_ERROR "a wrong gradient passes: ${output}")
endif()

# A perceptron learns from a CSV which points lie in a circle; a table that is broken is an error with its line.
set(table "x,y,label\n")
foreach(x RANGE -9 9)
  foreach(y RANGE -9 9)
    math(EXPR square "${x} * ${x} + ${y} * ${y}")
    set(label 0)
    if(square LESS 40)
      set(label 1)
    endif()
    string(APPEND table "0.${x},0.${y},${label}\n")
  endforeach()
endforeach()
string(REPLACE "0.-" "-0." table "${table}")
file(WRITE ${WORK_DIR}/circle.csv "${table}")
run(${WORK_DIR}/examples/perceptron ${WORK_DIR}/circle.csv ${WORK_DIR}/found.npy)
expect("3[3-6][0-9] of 361 rows are right")
file(SIZE ${WORK_DIR}/found.npy size)
if(NOT size EQUAL 1572)  # 128 bytes, and 361 of i32
  message(FATAL_ERROR "found.npy has ${size} bytes")
endif()
file(APPEND ${WORK_DIR}/circle.csv "1,2\n")
execute_process(COMMAND ${WORK_DIR}/examples/perceptron ${WORK_DIR}/circle.csv RESULT_VARIABLE result ERROR_VARIABLE output)
expect("circle.csv: line 363 has 2 fields, and the first line 3")

# A model of the user's own is trained, and a run that stopped ends with the same bits.
run(${WORK_DIR}/examples/two_moons ${WORK_DIR}/straight 300)
expect("tensor\\(\\[\\[.*shape=\\(512, 2\\), dtype=f32\\)")
expect("step 300: train loss 0\\.0.*, accuracy (100|9[789])\\.")
expect("The run is in ")
run(${WORK_DIR}/examples/two_moons ${WORK_DIR}/stopped 130)
run(${WORK_DIR}/examples/two_moons ${WORK_DIR}/stopped 300)
expect("resumed at step 130")
foreach(file model.safetensors optimizer.safetensors)
  run(${CMAKE_COMMAND} -E compare_files ${WORK_DIR}/straight/${file} ${WORK_DIR}/stopped/${file})
endforeach()

# The list of installed files takes all away again.
file(STRINGS ${BUILD_DIR}/install_manifest.txt installed)
file(REMOVE ${installed})
file(GLOB_RECURSE left ${WORK_DIR}/prefix/*)
if(left)
  message(FATAL_ERROR "after an uninstallation, there is ${left}")
endif()
