#!/usr/bin/env bash
# usage: scripts/web.sh [BUILD_FOLDER]
# Makes the page that `tapegrad export --out PAGE.html` puts models into: the library, compiled to WebAssembly by emscripten,
# and apps/web/page around it, as BUILD_FOLDER/share/tapegrad/web.html [build]. See docs/web.md.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build}
need() { command -v "$1" >/dev/null || { echo "scripts/web.sh needs $1: $2" >&2; exit 1; }; }
need em++ "apt-get install emscripten on Debian and Ubuntu, or https://emscripten.org"
need ninja "apt-get install ninja-build"
export NODE_PATH=${NODE_PATH-/usr/share/nodejs}  # Debian's modules, for a node of another origin
work=$build/web
mkdir -p "$work" "$build/share/tapegrad"

# The sources, without .cpp: those of a line are compiled as one. The linker drops the functions that nobody calls.
units() {
  cat <<'END'
base/text/utf8 base/text/number_text base/text/words base/text/name_pattern
base/memory/available_memory base/memory/dry_run base/memory/heap base/memory/memory
base/number_rules base/json/json_file
base/option_schema base/error base/file
autograd/apply autograd/module_names autograd/profile autograd/recomputation autograd/tape autograd/tape_graph
autograd/gemm/choose autograd/gemm/processor autograd/gemm/product_trial
autograd/tensor/print autograd/tensor/stored_type
autograd/formats/safetensors autograd/formats/safetensors_header
nn/decoder nn/decoder_config nn/decoder_names nn/init nn/layers nn/lora/lora nn/make_decoder nn/multi_head_attention
nn/name_map nn/params nn/measure
nn/generation/generation nn/generation/generation_step nn/generation/kept_caches nn/generation/kv_cache nn/generation/speculative/lookup nn/generation/running_text nn/generation/token_stream
optim/optimizer_list optim/parameter_groups optim/shares optim/optimizer_state
run/folder/config run/folder/config_table
apps/inspect/inside apps/inspect/inside_json apps/inspect/token_text
END
  printf '%s\n' base/{parallel,random} autograd/{derivatives,finite} nn/lora/row_adapters optim/{clip,optimizers/adamw} \
    autograd/gemm/{int8_columns,int8_products,int8_rows,onednn,operand,partition,plain_products} \
    autograd/kernels/{cached_page,elementwise,keep_mask} autograd/formats/tensor_source \
    autograd/quantized/{exact_products,quantized_matrix,quantized_products,weight_layouts,kernels/kernels_plain} \
    autograd/tensor/{create,dtype,shape,stored_blocks,stored_elements,stored_super_blocks,stored_short_blocks,stored_tensor,tensor,write_stored} \
    nn/generation/{speculative/draft,log_probabilities,pick_token} \
    data/tokenize/char_vocab data/tokenize/bpe/{bpe,byte_alphabet,byte_pairs,gpt2_pieces,piece_encoder,token_merges} \
    apps/web/{web_engine,page_engine,page_tokenizer}
  echo nn/layers/*.cpp
  ls autograd/ops/*.cpp | grep -vE 'ops/(avg|batch|conv|cum|einsum|embedding_bag|lstm|max|norm|composed_[lp]|probability|rounding)'
}

# Headers of fmt, nlohmann-json and utf8proc are the system's, which stand behind emscripten's own.
flags="-std=c++20 -O2 -DNDEBUG -msimd128 -fwasm-exceptions -fno-math-errno -fno-trapping-math -DFMT_HEADER_ONLY -DTAPEGRAD_WITHOUT_OPENBLAS"
headers="-include apps/web/libcxx.h -Iinclude -idirafter /usr/include"
{
  cat <<RULES
builddir = $work
rule precompile
  command = em++ $flags $headers -MD -MF \$out.d -x c++-header \$in -o \$out
  depfile = \$out.d
rule compile
  command = em++ $flags -include-pch $work/precompiled.pch $headers -MD -MF \$out.d -c \$in -o \$out
  depfile = \$out.d
rule link
  command = em++ $flags \$in -o \$out -sSINGLE_FILE -sMODULARIZE -sEXPORT_NAME=tapegradEngine -sFORCE_FILESYSTEM \$
    -sALLOW_MEMORY_GROWTH -sMAXIMUM_MEMORY=4GB -sENVIRONMENT=web,node -sEXPORTED_FUNCTIONS=_malloc,_free \$
    -sEXPORTED_RUNTIME_METHODS=FS,UTF8ToString,allocateUTF8 --js-library apps/web/page/system.js
build $work/precompiled.pch: precompile cmake/precompiled.h
RULES
  while read -r -a sources; do
    unit=$work/${sources[0]//\//_}.cpp
    printf '#include "tapegrad/%s.cpp"\n' "${sources[@]}" >"$unit.new"
    cmp -s "$unit.new" "$unit" || cp "$unit.new" "$unit"
    echo "build $unit.o: compile $unit | $work/precompiled.pch"
    objects+=" $unit.o"
  done < <(units | sed 's/\.cpp//g')
  echo "build $work/engine.js: link$objects"
} >"$work/build.ninja"
ninja -f "$work/build.ninja" "$work/engine.js"

while IFS= read -r line; do
  case $line in
    @engine.js@) cat "$work/engine.js" ;;
    @*@) cat "${line//@/}" ;;
    *) printf '%s\n' "$line" ;;
  esac
done <apps/web/page/index.html >"$work/web.html"
mv "$work/web.html" "$build/share/tapegrad/web.html"
echo "$build/share/tapegrad/web.html: $(($(stat -c %s "$build/share/tapegrad/web.html") / 1000)) kB"
