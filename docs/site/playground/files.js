// What Go's runtime asks a file system for: the files of a run are in memory, and only read.

const files = new Map(); // path -> bytes
const open = new Map(); // descriptor -> { bytes, at }
let lastDescriptor = 2;

const failed = code => Object.assign(new Error(code), { code });
const regular = bytes => ({
  dev: 0, ino: 0, mode: 0o100444, nlink: 1, uid: 0, gid: 0, rdev: 0, size: bytes.length, blksize: 4096,
  blocks: Math.ceil(bytes.length / 512), atimeMs: 0, mtimeMs: 0, ctimeMs: 0, isDirectory: () => false,
});
const inMemory = path => files.get(path.replace(/^(\/|\.\/)+/, ""));

function printed(descriptor, bytes) {
  (descriptor === 2 ? console.error : console.log)(new TextDecoder().decode(bytes).replace(/\n$/, ""));
  return bytes.length;
}

const refuse = (...given) => given[given.length - 1](failed("EROFS"));

globalThis.process = { getuid: () => -1, getgid: () => -1, geteuid: () => -1, getegid: () => -1, getgroups: () => [], pid: -1, ppid: -1,
  umask: () => 0, cwd: () => "/", chdir() { throw failed("ENOSYS"); } };

globalThis.fs = {
  constants: { O_WRONLY: 1, O_RDWR: 2, O_CREAT: 64, O_TRUNC: 512, O_APPEND: 1024, O_EXCL: 128, O_DIRECTORY: 65536 },
  writeSync: printed,
  write(descriptor, buffer, offset, length, position, done) {
    if (descriptor > 2) return done(failed("EBADF"));
    done(null, printed(descriptor, buffer.subarray(offset, offset + length)));
  },
  open(path, flags, mode, done) {
    if (flags & (1 | 2 | 64)) return done(failed("EROFS"));
    const bytes = inMemory(path);
    if (bytes === undefined) return done(failed("ENOENT"));
    open.set(++lastDescriptor, { bytes, at: 0 });
    done(null, lastDescriptor);
  },
  read(descriptor, buffer, offset, length, position, done) {
    const file = open.get(descriptor);
    if (file === undefined) return done(failed("EBADF"));
    const from = position === null ? file.at : Number(position);
    const part = file.bytes.subarray(from, from + length);
    buffer.set(part, offset);
    if (position === null) file.at += part.length;
    done(null, part.length);
  },
  close(descriptor, done) { open.delete(descriptor); done(null); },
  fstat(descriptor, done) {
    const file = open.get(descriptor);
    if (file === undefined) done(failed("EBADF")); else done(null, regular(file.bytes));
  },
  stat(path, done) {
    const bytes = inMemory(path);
    if (bytes === undefined) done(failed("ENOENT")); else done(null, regular(bytes));
  },
  lstat(path, done) { globalThis.fs.stat(path, done); },
  fsync(descriptor, done) { done(null); },
  chmod: refuse, chown: refuse, fchmod: refuse, fchown: refuse, ftruncate: refuse, lchown: refuse, link: refuse, mkdir: refuse,
  readdir: refuse, readlink: refuse, rename: refuse, rmdir: refuse, symlink: refuse, truncate: refuse, unlink: refuse, utimes: refuse,
};
