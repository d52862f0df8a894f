#pragma once

#include <sys/types.h>

#include <cerrno>

// The protocol between the driver of the fault tests and the library that it preloads into a
// program. The program stops at its first file call and becomes a server: for each Request it forks
// a child, which goes on as the program in another folder, and answers with a Response. So a
// program loads its libraries once for hundreds of runs.
namespace faults {

inline constexpr int kRequestFd = 198, kResponseFd = 199;
inline constexpr int kMostCalls = 2000;

// Kinds of file calls.
enum class Call : unsigned char {
  open,    // a file or folder that exists, for reading
  create,  // open for writing
  read,
  write,
  sync,  // of a file
  sync_folder,
  close,
  look,  // stat, access, readlink
  list,  // opendir, readdir
  rename,
  make,    // mkdir
  remove,  // unlink, rmdir
  truncate,
  lock,
};

// The event at the n-th call.
enum class Fault : int {
  none,
  kill,         // SIGKILL, before the call is made
  io_error,     // EIO
  quota,        // EDQUOT
  half,         // fewer bytes are read or written than asked for
  interrupted,  // EINTR
  unsupported,  // EINVAL
  // These go on with all later calls.
  full,       // ENOSPC
  read_only,  // EROFS
  broken,     // EIO
};
inline constexpr Fault kFaults[] = {Fault::kill, Fault::io_error,    Fault::quota,
                                    Fault::half, Fault::interrupted, Fault::unsupported,
                                    Fault::full, Fault::read_only,   Fault::broken};

inline const char* name_of(Fault fault) {
  constexpr const char* names[] = {"nothing",
                                   "SIGKILL",
                                   "EIO",
                                   "EDQUOT",
                                   "half",
                                   "EINTR",
                                   "EINVAL",
                                   "ENOSPC from here on",
                                   "EROFS from here on",
                                   "EIO from here on"};
  return names[static_cast<int>(fault)];
}

inline const char* name_of(Call call) {
  constexpr const char* names[] = {
      "open",     "open to write", "read", "write",  "fsync", "fsync of the folder",
      "close",    "look at",       "list", "rename", "mkdir", "remove",
      "truncate", "lock"};
  return names[static_cast<int>(call)];
}

inline int error_of(Fault fault) {
  switch (fault) {
    case Fault::quota:
      return EDQUOT;
    case Fault::interrupted:
      return EINTR;
    case Fault::unsupported:
      return EINVAL;
    case Fault::full:
      return ENOSPC;
    case Fault::read_only:
      return EROFS;
    default:
      return EIO;
  }
}

// Calls that the outcome of a run depends on: none of their errors may be passed over.
inline bool changes(Call call) {
  return call == Call::create || call == Call::write || call == Call::sync ||
         call == Call::sync_folder || call == Call::rename || call == Call::make ||
         call == Call::truncate;
}

// True if a system can do this to such a call.
inline bool applies(Fault fault, Call call) {
  switch (fault) {
    case Fault::none:
      return false;
    case Fault::kill:
    case Fault::io_error:
    case Fault::broken:
      return true;
    case Fault::half:
    case Fault::interrupted:
      return call == Call::read || call == Call::write;
    case Fault::unsupported:
      return call == Call::sync_folder;
    case Fault::quota:
    case Fault::full:
      return call == Call::create || call == Call::write || call == Call::make ||
             call == Call::rename;
    case Fault::read_only:
      return call == Call::create || call == Call::write || call == Call::make ||
             call == Call::rename || call == Call::remove || call == Call::truncate;
  }
  return false;
}

struct Request {
  Fault fault = Fault::none;
  int call = 0;           // the n of the n-th call, from 1 on
  long file_limit = 0;    // RLIMIT_FSIZE; 0 for none
  char folder[256] = {};  // the working folder of the run
  char files[256] = {};   // where its stdout and stderr go: files/out, files/err
  bool record = false;    // write all changes to files/log
};

struct Response {
  int status = 0;  // as of waitpid
  int calls = 0;
  Call kinds[kMostCalls] = {};
  char text[1100] = {};  // the call that the fault was at
};

// files/log is a sequence of these, each with the bytes of its two texts behind it. All of them
// are calls that succeeded.
struct Record {
  enum Kind : int { open, write, truncate, sync, close, rename, make, unlink, rmdir, print } kind;
  int fd;                // of open, write, truncate, sync, close
  int flags;             // of open
  off_t offset;          // of write (−1: where the descriptor is), of truncate
  size_t first, second;  // bytes: path, or what is written or printed; of rename, the new path
};

}  // namespace faults
