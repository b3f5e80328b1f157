// Package core is the facade that gopy binds as the Python module dynamo._core._core.
//
// It holds no decisions: it names a run by an integer, hands the configuration to gocore/job, and gives the result
// back as JSON text and raw column bytes. One run goes
//
//	id := Open()                 a fresh run
//	Run(id, config)              blocks; JSON of the report, or an error
//	Answer(id, answer)           goes on with a run that has returned a question instead; blocks as Run
//	Progress(id), Cancel(id)     from any other thread, while Run or Answer blocks
//	Column(id, name), Strings(…) per-request columns, after Run
//	Close(id)                    forgets the run and its rows
//	Interrupts()                 how often Ctrl-C has interrupted the process
//	RemoveDrafts()               before the process ends without waiting for its runs
//
// Convert, Inspect and Profile take the place of Run for work that is no replay: they convert a recording, describe a
// trace, or make a table of measured durations.
//
// Questions are for the AIC SDK, which is a Python package. Go never calls Python: Run or Answer returns the question
// while the run waits, and Python answers with the next call.
//
// Package border has the rules of gopy. Breaking any of them would end the whole interpreter.
package core
