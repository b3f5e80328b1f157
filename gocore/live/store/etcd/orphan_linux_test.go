package etcd

import (
	"os/exec"
	"syscall"
)

// endWithTests has the system end a server whose tests have crashed, which runs no cleanup.
func endWithTests(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
