// SPDX-License-Identifier: Apache-2.0
#include "runtime/data/shards.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "base/error.h"
#include "runtime/data/image_dataset.h"
#include "tests/unit/data/made_images.h"
#include "tests/unit/data/made_tar.h"
#include "tests/unit/data/scratch_folder.h"

namespace hetpipe {
namespace data_shards_test {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string png(int key) { return png_of(made_image(4, 6, 3, key)); }

class Shards : public ::testing::Test {
 protected:
  Shards() {
    fs::create_directories(folder_ / "data");
    fs::create_directories(folder_ / "cache");
    setenv("HETPIPE_CACHE", (folder_ / "cache").c_str(), 1);
  }
  ~Shards() override { unsetenv("HETPIPE_CACHE"); }

  void write(const std::string& name, const std::string& members, bool ended = true) const {
    fs::create_directories((folder_ / "data" / name).parent_path());
    write_plain(folder_ / "data" / name, members + (ended ? tar_end() : ""));
  }
  std::string spec(const std::string& path = "") const {
    return "shards:" + (folder_ / "data" / path).string();
  }
  std::string refusal(const std::string& path = "") const {
    return error_of<UserError>([&] { open_shards(spec(path)); });
  }
  static std::vector<std::string> names(const ImageSource& source) {
    std::vector<std::string> all;
    for (std::int64_t i = 0; i < source.size(); ++i) {
      all.push_back(fs::path(source.name(i)).filename().string());
    }
    return all;
  }
  int kept() const {
    const fs::path place = folder_ / "cache" / "shards";
    if (!fs::exists(place)) return 0;
    return static_cast<int>(std::distance(fs::directory_iterator(place), {}));
  }
  ScratchFolder folder_;
};

TEST_F(Shards, MembersOfAnEqualNameAreASample) {
  write("train-000001.tar", tar_sample("c/7", png(3), "1"));
  write("train-000000.tar", tar_member("./", "", {.type = '5'}) +
                                tar_sample("./a/1", png(1), "2\n") + tar_member("b/1.cls", " 0 ") +
                                tar_member("b/1.json", "{}") +
                                tar_member("b/1.seg.png", "no image of a sample") +
                                tar_member("b/1.JPEG", jpeg_of(made_image(4, 6, 3, 2))) +
                                tar_member("README", "x") + tar_member("c/._7.png", "of macOS"));
  write("val-0.tar", tar_sample("9", png(9), "2"));
  const ImageSources sources = open_shards(spec());
  EXPECT_EQ(sources.classes, 3);
  EXPECT_THAT(sources.train->labels(), ElementsAre(2, 0, 1));
  EXPECT_THAT(sources.train->name(0), HasSubstr("data/train-000000.tar: ./a/1.png"));
  EXPECT_THAT(names(*sources.train), ElementsAre("1.png", "1.JPEG", "7.png"));
  EXPECT_EQ(sources.train->read(0).pixels, made_image(4, 6, 3, 1).pixels);
  EXPECT_EQ(sources.train->read(1).height, 4);
  EXPECT_EQ(sources.train->read(2).pixels, made_image(4, 6, 3, 3).pixels);
  EXPECT_THAT(sources.test->labels(), ElementsAre(2));
  EXPECT_EQ(sources.test->read(0).pixels, made_image(4, 6, 3, 9).pixels);
  EXPECT_EQ(sources.remark, "");
}

TEST_F(Shards, ClassesWithoutSamplesAreRemarkedOn) {
  write("x.tar", tar_sample("1", png(1), "5") + tar_sample("2", png(2), "1"));
  const ImageSources sources = open_shards(spec("x.tar"));
  EXPECT_EQ(sources.classes, 6);
  EXPECT_THAT(sources.remark, AllOf(HasSubstr("no training samples of 4 of its 6 classes"),
                                    HasSubstr("of class 0 for one")));
}

// Headers that lengthen the name of the next member, and one whose name has two fields.
TEST_F(Shards, NamesMayBeLong) {
  const std::string folder = std::string(90, 'f') + "/" + std::string(90, 'g') + "/";
  const auto of_gnu = [&](const std::string& name, const std::string& content) {
    return tar_member("././@LongLink", folder + name + '\0', {.type = 'L'}) +
           tar_member((folder + name).substr(0, 100), content);
  };
  // LENGTH counts itself, the space, the record and its end.
  const auto of_pax = [&](const std::string& name, const std::string& content) {
    const std::string path = " path=" + folder + name + "\n";
    return tar_member("PaxHeaders/2", "13 mtime=1.5\n" + std::to_string(path.size() + 3) + path,
                      {.type = 'x'}) +
           tar_member("short", content);
  };
  const std::string prefix(150, 'p');
  write("x.tar", of_gnu("1.png", png(1)) + of_gnu("1.cls", "0") +
                     tar_member("global", "14 comment=abc\n", {.type = 'g'}) +
                     of_pax("2.png", png(2)) + of_pax("2.cls", "1") +
                     tar_member("3.png", png(3), {.prefix = prefix}) +
                     tar_member("3.cls", "1", {.prefix = prefix}));
  const ImageSources sources = open_shards(spec("x.tar"));
  EXPECT_THAT(sources.train->labels(), ElementsAre(0, 1, 1));
  EXPECT_THAT(sources.train->name(0), HasSubstr("x.tar: " + folder + "1.png"));
  EXPECT_THAT(sources.train->name(1), HasSubstr("x.tar: " + folder + "2.png"));
  EXPECT_THAT(sources.train->name(2), HasSubstr("x.tar: " + prefix + "/3.png"));
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(sources.train->read(i).pixels, made_image(4, 6, 3, i + 1).pixels);
  }
}

// The program itself, in each of its formats.
TEST_F(Shards, AsTarWritesThem) {
  if (std::system("tar --version > /dev/null 2>&1") != 0) GTEST_SKIP() << "tar is not installed";
  const std::string deep = std::string(60, 'd') + "/" + std::string(60, 'e');
  fs::create_directories(folder_ / "in" / deep);
  for (int i = 0; i < 20; ++i) {
    const fs::path stem = folder_ / "in" / (i % 2 == 0 ? "." : deep) / std::to_string(100 + i);
    write_plain(stem.string() + ".png", png(i));
    write_plain(stem.string() + ".cls", std::to_string(i % 3) + "\n");
  }
  for (const std::string kind : {"ustar", "gnu", "pax"}) {
    SCOPED_TRACE(kind);
    const std::string file = (folder_ / "data" / (kind + ".tar")).string();
    ASSERT_EQ(std::system(("tar --sort=name --format=" + kind + " -C " + (folder_ / "in").string() +
                           " -cf " + file + " .")
                              .c_str()),
              0);
    const ImageSources sources = open_shards("shards:" + file);
    ASSERT_EQ(sources.train->size(), 20);
    for (std::int64_t i = 0; i < 20; ++i) {
      const int number = std::stoi(fs::path(sources.train->name(i)).stem().string()) - 100;
      EXPECT_EQ(sources.train->labels()[static_cast<std::size_t>(i)], number % 3);
      EXPECT_EQ(sources.train->read(i).pixels, made_image(4, 6, 3, number).pixels);
    }
  }
}

TEST_F(Shards, FilesAreNamedInManyWays) {
  const auto split = [&](const std::string& path) {
    const ShardFiles files = shard_files(spec(path));
    std::vector<std::string> all;
    for (const auto* some : {&files.train, &files.test}) {
      for (const fs::path& file : *some) all.push_back(fs::relative(file, folder_ / "data"));
      all.push_back("|");
    }
    return all;
  };
  EXPECT_THAT(split("t-{008..011}.tar"),
              ElementsAre("t-008.tar", "t-009.tar", "t-010.tar", "t-011.tar", "|", "|"));
  EXPECT_THAT(split("{a,b}{8..9}.tar"),
              ElementsAre("a8.tar", "a9.tar", "b8.tar", "b9.tar", "|", "|"));
  EXPECT_THAT(split("{9..10}.tar"), ElementsAre("9.tar", "10.tar", "|", "|"));
  const std::string test = "," + (folder_ / "data/v-{0,1}.tar").string();
  EXPECT_THAT(split("{a,b}.tar" + test),
              ElementsAre("a.tar", "b.tar", "|", "v-0.tar", "v-1.tar", "|"));
  for (const char* name :
       {"plain/b.tar", "plain/a.tar", "plain/notes.txt", "hub/imagenet1k-train-00.tar",
        "hub/imagenet1k-validation-00.tar", "deep/train/1.tar", "deep/test/2.tar"}) {
    write(name, "");
  }
  EXPECT_THAT(split("plain"), ElementsAre("plain/a.tar", "plain/b.tar", "|", "|"));
  EXPECT_THAT(split("hub"), ElementsAre("hub/imagenet1k-train-00.tar", "|",
                                        "hub/imagenet1k-validation-00.tar", "|"));
  EXPECT_THAT(split("deep"), ElementsAre("deep/train/1.tar", "|", "deep/test/2.tar", "|"));
}

TEST_F(Shards, FilesThatCannotBeMeant) {
  const auto error = [&](const std::string& path) {
    return error_of<UserError>([&] { shard_files(spec(path)); });
  };
  EXPECT_THAT(error_of<UserError>([] { shard_files("shards:"); }), HasSubstr("names no shards"));
  EXPECT_THAT(error(""), HasSubstr("holds no shards"));
  EXPECT_THAT(error("x.zip"), HasSubstr("x.zip' is neither a folder nor a shard"));
  EXPECT_THAT(error("x.tar.gz"),
              AllOf(HasSubstr("x.tar.gz: is compressed"), HasSubstr("gunzip x.tar.gz")));
  for (const char* pattern : {"{1..}.tar", "{2..1}.tar", "{a..c}.tar", "{1..2.tar", "{}.tar",
                              "{x{1..2},b}.tar", "{0..9999999}.tar", "{0..9999}{0..9999}.tar"}) {
    EXPECT_THAT(error(pattern), HasSubstr("is no pattern of names")) << pattern;
  }
  EXPECT_THAT(error("a.tar,b.tar,c.tar"), HasSubstr("has 3 patterns"));
  EXPECT_THAT(error("a.tar,"), HasSubstr("'' is neither a folder nor a shard"));
  write("zipped/a.tar.gz", "");
  EXPECT_THAT(error("zipped"), HasSubstr("zipped/a.tar.gz: is compressed"));
  write("tests/val-0.tar", "");
  EXPECT_THAT(error("tests"), HasSubstr("holds test samples alone"));
  write("tests/train-0.tar", "");
  write("tests/other-0.tar", "");
  EXPECT_THAT(error("tests"),
              HasSubstr("tests/other-0.tar: has a name without train, val or test"));
  fs::remove(folder_ / "data/tests/other-0.tar");
  write("tests/test/0.tar", "");
  EXPECT_THAT(error("tests"), HasSubstr("several kinds of test samples"));
}

TEST_F(Shards, AllThatIsWrongIsSaidAtOnce) {
  const std::string two = tar_sample("k1", png(1), "0") + tar_sample("k2", png(2), "1");
  write("a.tar", tar_member("n/1.png", png(1)) + tar_member("n/2.cls", "0") +
                     tar_member("n/3.png", png(1)) + tar_sample("n/3", png(1), "1", ".jpg") +
                     tar_sample("n/4", png(1), "one") + tar_sample("n/5", png(1), "-1") +
                     tar_sample("n/6", png(1), "") + tar_sample("n/7", png(1), "1000000") +
                     tar_member("n/.png", png(1)) + tar_sample("n/8", png(1), "1") +
                     tar_member("n/8.cls", "1"));
  write("b.tar", two + tar_member("9.png", "", {.type = '1'}) + tar_member("9.cls", "0"));
  write("c.tar", "");
  write("d.tar", tar_member("README", "no sample"));
  const std::string wrong = refusal();
  for (const char* words :
       {"a.tar: sample 'n/1': has no class", "a.tar: sample 'n/2': has no image",
        "a.tar: n/3.jpg: is a second image of its sample (n/3.png is one",
        "a.tar: n/4.cls: says 'one' (a class is a number from 0", "a.tar: n/5.cls: says '-1'",
        "a.tar: n/6.cls: says ''", "a.tar: n/7.cls: says '1000000'",
        "a.tar: n/.png: has a name that leaves nothing", "a.tar: n/8.cls: is a second class",
        "b.tar: 9.png: is a link", "c.tar: holds no samples", "d.tar: holds no samples"}) {
    EXPECT_THAT(wrong, HasSubstr(words));
  }
  EXPECT_EQ(std::count(wrong.begin(), wrong.end(), '\n'), 11) << wrong;
  EXPECT_EQ(kept(), 0);
  EXPECT_THAT(refusal("nowhere.tar"), HasSubstr("nowhere.tar: cannot be read (No such file"));
  write("alone.tar", tar_sample("1", png(1), "0"));
  EXPECT_THAT(refusal("alone.tar"), HasSubstr("holds one class"));
  write("s/train-0.tar", two);
  write("s/val-0.tar", tar_sample("1", png(1), "2"));
  EXPECT_THAT(refusal("s"),
              HasSubstr("s/val-0.tar: 1.png: is of class 2 (training samples are of 0 to 1)"));
}

// Wherever an archive is cut, and whichever byte of a header is another one.
TEST_F(Shards, DamagedArchives) {
  const std::string sound = tar_sample("1", png(1), "0") + tar_sample("2", png(2), "1");
  const std::string whole = sound + tar_end();
  for (std::size_t length = 0; length <= sound.size(); length += 97) {
    write("x.tar", whole.substr(0, length), false);
    EXPECT_THAT(refusal("x.tar"),
                AllOf(HasSubstr("x.tar: "), HasSubstr("Fetch or make the shard again")))
        << length;
  }
  write("x.tar", sound, false);
  EXPECT_THAT(refusal("x.tar"), HasSubstr("without the mark of an archive's end"));
  write("x.tar", tar_member("1.png", png(1), {.size = 1LL << 32}));
  EXPECT_THAT(refusal("x.tar"), HasSubstr("ends inside of '1.png'"));
  write("x.tar", whole + whole, false);
  EXPECT_THAT(refusal("x.tar"), HasSubstr("goes on after the end of its archive at byte"));
  write("x.tar", tar_member("x", "nonsense", {.type = 'x'}) + sound);
  EXPECT_THAT(refusal("x.tar"), HasSubstr("has damaged pax records at byte 0"));
  write("x.tar", tar_member("x", std::string(2 << 20, 'n'), {.type = 'L'}) + sound);
  EXPECT_THAT(refusal("x.tar"), HasSubstr("has a name or records of 2097152 bytes"));
  for (std::size_t at = 0; at < 512; at += 7) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x15);
    write("x.tar", damaged, false);
    EXPECT_THAT(refusal("x.tar"), HasSubstr("has no header of a member at byte 0")) << at;
  }
}

// A second start reads what the first has kept, unless a shard is another one now.
TEST_F(Shards, WhatWasFoundIsKept) {
  const fs::path file = folder_ / "data" / "x.tar";
  const std::string members = tar_sample("a 1", png(1), "0") + tar_sample("2", png(2), "1");
  write("x.tar", members);
  const auto written = fs::last_write_time(file);
  EXPECT_EQ(open_shards(spec()).train->size(), 2);
  EXPECT_EQ(kept(), 1);
  // Of the same size and time: it would be refused if it was read.
  write("x.tar", std::string(members.size(), 'x'));
  fs::last_write_time(file, written);
  const ImageSources again = open_shards(spec());
  EXPECT_THAT(names(*again.train), ElementsAre("x.tar: a 1.png", "x.tar: 2.png"));
  EXPECT_THAT(again.train->labels(), ElementsAre(0, 1));
  // What was kept is damaged.
  const fs::path text = fs::directory_iterator(folder_ / "cache" / "shards")->path();
  fs::resize_file(text, fs::file_size(text) - 3);
  EXPECT_THAT(refusal(), HasSubstr("has no header"));
  write("x.tar", members);
  fs::last_write_time(file, written + std::chrono::nanoseconds(1000));
  EXPECT_EQ(open_shards(spec()).train->size(), 2);
  EXPECT_EQ(kept(), 2);
}

TEST_F(Shards, MustNotChangeDuringARun) {
  const std::string members = tar_sample("1", png(1), "0") + tar_sample("2", png(2), "1");
  write("x.tar", members);
  write("y.tar", members);
  const ImageSources sources = open_shards(spec());
  sources.train->read(0);  // x.tar is open now
  const auto later = std::chrono::seconds(5);
  for (const char* name : {"x.tar", "y.tar"}) {
    fs::last_write_time(folder_ / "data" / name, fs::file_time_type::clock::now() + later);
  }
  const auto error = [&](std::int64_t i) {
    return error_of<UserError>([&] { sources.train->read(i); });
  };
  EXPECT_THAT(error(1), HasSubstr("x.tar: has changed while it was in use"));
  EXPECT_THAT(error(2), HasSubstr("y.tar: has changed since its samples were looked up"));
  fs::remove(folder_ / "data" / "y.tar");
  EXPECT_THAT(error(3), HasSubstr("y.tar: cannot be read (No such file"));
}

// More shards than files stay open, by several threads.
TEST_F(Shards, AreOpenedAsTheyAreNeeded) {
  constexpr int kShards = 150;
  for (int s = 0; s < kShards; ++s) {
    write(std::to_string(1000 + s) + ".tar", tar_sample("1", png(s), std::to_string(s % 2)));
  }
  const auto open_files = [] {
    return std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator());
  };
  const auto before = open_files();
  const ImageSources sources = open_shards(spec());
  EXPECT_LE(open_files(), before);
  std::atomic<int> wrong = 0;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < 2 * kShards; ++i) {
          const int s = (i * (t + 1) * 7 + t) % kShards;
          if (sources.train->read(s).pixels != made_image(4, 6, 3, s).pixels) ++wrong;
        }
      });
    }
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_LE(open_files(), before + 64);
  EXPECT_GE(open_files(), before + 60);
}

}  // namespace data_shards_test
}  // namespace hetpipe
