#include "tapegrad/arrays/npy.h"

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "tapegrad/arrays/internal/npy_header.h"
#include "tapegrad/base/file.h"

namespace tapegrad::arrays {
namespace {

struct NpyType {
  std::string_view descr;
  DType dtype;
};
// The first of a dtype is what is written.
constexpr NpyType kTypes[] = {{"<f4", DType::f32}, {"<f8", DType::f64},     {"<i4", DType::i32},
                              {"|u1", DType::u8},  {"|b1", DType::boolean}, {"<i8", DType::i64}};
constexpr std::string_view kEnding = ".npy";

DType dtype_of_file(const std::string& file, std::string_view descr) {
  for (const NpyType& type : kTypes) {
    if (type.descr == descr) return type.dtype;
  }
  if (descr.starts_with('>')) {
    fail("{}: its type is '{}', in big-endian order; save array.astype('<{}')", file, descr,
         descr.substr(1));
  }
  fail("{}: its type is '{}'; read are f4, f8, i4, i8, u1 and bool: save array.astype(…)", file,
       descr);
}

Tensor read_array(ByteSource source) {
  const NpyHeader header = read_npy_header(source);
  const DType dtype = dtype_of_file(source.name(), header.descr);
  check(!header.fortran_order,
        "{}: its array is in Fortran's order, column by column; save "
        "numpy.ascontiguousarray(array)",
        source.name());
  source.check_room(header.shape, size_of(dtype));
  Tensor tensor = Tensor::empty(header.shape, dtype);
  dispatch_all(dtype, [&](auto zero) {
    using T = decltype(zero);
    auto* const data = reinterpret_cast<std::uint8_t*>(tensor.mutable_data<T>());
    source.read(data, tensor.bytes());
    if constexpr (std::is_same_v<T, bool>) {  // a file may have any bytes
      for (std::int64_t i = 0; i < tensor.numel(); ++i) data[i] = data[i] != 0;
    }
  });
  source.check_end();
  return tensor;
}

std::string_view bytes_of(const Tensor& tensor) {
  return dispatch_all(tensor.dtype(), [&](auto zero) {
    const auto* data = tensor.data<decltype(zero)>();
    return std::string_view(reinterpret_cast<const char*>(data), tensor.bytes());
  });
}

std::string header_of(const Tensor& tensor) {
  const auto type = std::find_if(std::begin(kTypes), std::end(kTypes),
                                 [&](const NpyType& t) { return t.dtype == tensor.dtype(); });
  return npy_header(type->descr, tensor.shape());
}

}  // namespace

Tensor load_npy(const std::filesystem::path& path) { return read_array(ByteSource::of_file(path)); }

std::map<std::string, Tensor> load_npz(const std::filesystem::path& path) {
  const StoredZip zip(path, true);
  std::uint64_t left = zip.file().size();  // else a few bytes could be the array of many names
  std::map<std::string, Tensor> tensors;
  for (const std::string& entry : zip.entries()) {
    check(entry.ends_with(kEnding), "{}: '{}' in it is not an .npy file", path.string(), entry);
    const std::uint64_t size = zip.place(entry).size;
    check(size <= left, "{}: files in it overlap", path.string());
    left -= size;
    tensors.emplace(entry.substr(0, entry.size() - kEnding.size()),
                    read_array(ByteSource::of_archive(zip, entry)));
  }
  return tensors;
}

void save_npy(const std::filesystem::path& path, const Tensor& tensor) {
  write_file_atomically(path, [&](FileWriter& out) {
    out.write(header_of(tensor));
    out.write(bytes_of(tensor));
  });
}

void save_npz(const std::filesystem::path& path, const NamedTensors& tensors) {
  std::map<std::string, std::string> files;
  for (const auto& [name, tensor] : tensors) {
    const bool is_new =
        files.emplace(name + std::string(kEnding), header_of(tensor).append(bytes_of(tensor)))
            .second;
    check(is_new, "{}: two tensors have the name '{}'", path.string(), name);
  }
  std::vector<ZipFile> views;
  for (const auto& [name, bytes] : files) views.push_back({name, bytes});
  write_stored_zip(path, views);
}

}  // namespace tapegrad::arrays
