// Package deploy makes what the workers and routers of a deployment get from what users say of them. A run and a server
// say it with other options, and get the same:
//
//	router_config, seed      ParseRouting -> Routing.Stages   the routers of one pool, or of prefill and decode workers
//	engine arguments         Model                            how long passes take, unless the AIC SDK is asked
//	                         Mismatch                         what keeps two pools from handing prompts over
//
// What the AIC SDK says is asked for by aic/session, what profiles set by calibration; package fleet runs the result.
package deploy
