package console

import (
	"errors"
	"net/http"
	"net/url"
)

// signIn shows the form for a token, and takes it. The token is not accepted before the API server has accepted it.
func (s *Server) signIn(w http.ResponseWriter, r *http.Request, door *Cluster) {
	next := local(r.FormValue("next"))
	v := s.view(r, nil, nil, nil)
	v.Title, v.Doc = "Sign in", next
	if r.Method != http.MethodPost {
		if own := door.ownHost(r); own != "" {
			http.Redirect(w, r, "http://"+own+"/sign-in?next="+url.QueryEscape(next), http.StatusSeeOther)
			return
		}
		s.write(w, http.StatusOK, s.pages.signIn, v)
		return
	}
	token := cleanToken(r.PostFormValue("bearer"))
	if token == "" {
		v.Failure = "this is not a token: want one line as \"kubectl create token NAME\" prints it"
		s.write(w, http.StatusBadRequest, s.pages.signIn, v)
		return
	}
	_, err := s.viewers.get(r.Context(), &visitor{key: hash(token), config: door.with(token)})
	if err != nil {
		code, text := explain(err)
		if v.Failure = text; isRefused(err) {
			code, v.Failure = http.StatusUnauthorized, "the API server does not accept this token"
		}
		s.write(w, code, s.pages.signIn, v)
		return
	}
	s.enter(w, r, door.signIn(w, token), next)
}

// signOut ends a session. The pages that it has open end too, and with the last session of a viewer the watches.
func (s *Server) signOut(w http.ResponseWriter, r *http.Request, door *Cluster) {
	who := door.admit(r)
	if who != nil && !same(r.PostFormValue("token"), who.form) {
		s.fail(w, r, nil, errors.Join(Refusal{"this form is not of a page that you have open now: load it again"}))
		return
	}
	door.signOut(w, r)
	if who != nil && !door.signedIn(who.key) {
		s.viewers.leave(who.key)
	}
	http.Redirect(w, r, "/sign-in", http.StatusSeeOther)
}
