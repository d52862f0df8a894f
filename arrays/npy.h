#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "tapegrad/autograd/formats/safetensors.h"
#include "tapegrad/autograd/tensor/tensor.h"

namespace tapegrad::arrays {

// NumPy's files of arrays: numpy.lib.format, "Format Version 1.0" to "3.0".
//
// Read are '<f4' as f32, '<f8' as f64, '<i4' as i32, '<i8' as i64, '|u1' as u8 and '|b1' as bool,
// and written as such. Errors, naming the path: another type, one in big-endian order
// or with fields; an array in Fortran's order; a file that is broken, cut, or longer than its
// array. No array that is larger than the file can hold is allocated.
Tensor load_npy(const std::filesystem::path& path);
// All arrays of numpy.savez or numpy.savez_compressed, by their names without ".npy".
std::map<std::string, Tensor> load_npz(const std::filesystem::path& path);

// What numpy.load reads; the file appears only when it is complete.
void save_npy(const std::filesystem::path& path, const Tensor& tensor);
// As numpy.savez. Error if two tensors have the same name.
void save_npz(const std::filesystem::path& path, const NamedTensors& tensors);

}  // namespace tapegrad::arrays
