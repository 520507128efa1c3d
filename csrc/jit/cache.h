// Compiled kernels on disk: those that came with the package, and those that were compiled on this machine.
//
// A file holds one kernel of one architecture. It starts with lines that say which: what was compiled, by what, with
// which options. Whoever reads it compares these with what he wants, so that a file of another version, a truncated
// one, or one that has another kernel's name by chance counts as missing. A file is written beside its place and
// renamed, so that it is there whole or not at all.

#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "jit/compiler.h"

namespace reduce_ops::jit {

/// Where a kernel's file lies below a cache folder. compiler: the version of NVRTC that made it or is to make it.
std::filesystem::path entry_path(const std::filesystem::path& folder, const Name& name, const std::string& architecture,
                                 const std::string& compiler);

/// Reads one file. compiler: that version alone, or empty: any.
std::optional<Code> read_entry(const std::filesystem::path& path, const Name& name, const std::string& architecture,
                               const std::string& compiler);

/// Writes one file; false where that is not possible (a folder that is read-only, a full disk), and then leaves nothing
/// behind.
bool write_entry(const std::filesystem::path& path, const Name& name, const std::string& architecture,
                 const std::string& compiler, const Code& code);

/// Any version's file of a kernel below a cache folder.
std::optional<Code> read_any_entry(const std::filesystem::path& folder, const Name& name,
                                   const std::string& architecture);

/// Held while a kernel is compiled, so that of several processes one does. The operating system gives it back
/// when its process dies.
class EntryLock {
 public:
  explicit EntryLock(const std::filesystem::path& entry);
  ~EntryLock();
  EntryLock(const EntryLock&) = delete;
  EntryLock& operator=(const EntryLock&) = delete;

  /// Whether it is held now. Where there can be no lock, as in a folder that is read-only, it counts as held.
  bool try_lock();

 private:
  int file_ = -1;
  long long byte_ = 0;
};

}  // namespace reduce_ops::jit
