// SPDX-License-Identifier: Apache-2.0
#include "headwise/io/npz.h"

#include <utility>

#include "headwise/io/npz_archive.h"

namespace headwise {

NpzFile::NpzFile(std::string path)
    : file_(std::move(path)), archive_(std::make_unique<NpzArchive>(file_.path(), file_.bytes())) {}

NpzFile::NpzFile(NpzFile&&) noexcept = default;
NpzFile& NpzFile::operator=(NpzFile&&) noexcept = default;
NpzFile::~NpzFile() = default;

std::vector<std::string> NpzFile::names() const { return archive_->names(); }
bool NpzFile::contains(std::string_view name) const { return archive_->contains(name); }
NpyHeader NpzFile::header(std::string_view name) const { return archive_->header(name); }
NpzArray NpzFile::array(std::string_view name) const { return archive_->array(name); }

}  // namespace headwise
